// What an exception that nobody catches ends in. The C++ library's own function prints the exception's type in full,
// for which it brings a demangler of 47 kB with it; it is linked in only if nobody else defines it.
#include <cstdlib>

namespace __gnu_cxx {
void __verbose_terminate_handler();  // NOLINT: the C++ library's name
void __verbose_terminate_handler() { std::abort(); }
}  // namespace __gnu_cxx
