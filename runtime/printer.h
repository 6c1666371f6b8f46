// The debug printer: modes 2 and 3 of aot_inductor.debug_intermediate_value_printer. Mode 3 prints each kernel's name
// before its launch; mode 2 prints, before and after each launch, what every argument holds.
//
// intermediate_value_style chooses another form than the contract's: `written` the same text, but only what a kernel
// wrote; `table` one line per value that was written, `json` one JSON object per line. Table and JSON leave out the
// steps that prepare weights, unless `init` is said too.
//
// A record is one call of the log, written out before the launch: the last one survives a crash, and records of
// concurrent runs do not mix (each has its run's number).
#pragma once
#include <memory>

#include "runtime/kernel_filter.h"
#include "runtime/log.h"
#include "runtime/observer.h"
#include "runtime/step_text.h"

namespace kiln::runtime {

struct PrinterStyle {
  bool written = false, table = false, json = false, init = false;
};
PrinterStyle parse_printer_style(const std::vector<std::string>& words);  // throws K0142 for a word that nobody knows

std::unique_ptr<StepObserver> make_printer(bool names_only, PrinterStyle style, KernelFilter filter,
                                           std::shared_ptr<const ValueOrigins> origins, const Log& log);

}  // namespace kiln::runtime
