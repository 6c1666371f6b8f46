// Texts of users (paths, names, messages) inside scripts and sources that Kiln writes: quoted so that whatever they
// hold, a newline or a quote included, they stay what they are and nothing in them is run.
#pragma once
#include <string>
#include <string_view>

namespace kiln {

// 'it\'s': a Python string. Bytes that are no UTF-8 (paths may have them) become the escapes that Python's os.fsencode
// turns back into those bytes.
std::string python_quote(std::string_view text);
// One word of a POSIX shell; plain words stay as they are.
std::string shell_quote(std::string_view text);
// For a comment that ends with its line, in Python, shell and C++: control characters are shown as escapes, and no
// backslash stands last (C++ would join the next line).
std::string comment_text(std::string_view text);
// Every line of the text as a comment of its own.
std::string comment_lines(std::string_view text, std::string_view mark);

}  // namespace kiln
