// DLPack's table of C functions that a tensor's type may offer (`__dlpack_c_exchange_api__`, DLPack 1.2), and the
// tensor of DLPack before version 1: layout-compatible declarations of what the module uses.
#pragma once
#include "kiln/dlpack.h"

namespace kiln::python {

struct ExchangeHeader {
  DLPackVersion version;
  ExchangeHeader* previous;  // an older table, for those who do not know this version
};

struct ExchangeTable {
  ExchangeHeader header;
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*from_python)(void* object, DLManagedTensorVersioned** out);
  int (*to_python)(DLManagedTensorVersioned* tensor, void** out);  // takes the tensor
  int (*view)(void* object, DLTensor* out);                        // valid until control goes back; may be NULL
  int (*current_stream)(DLDeviceType type, int32_t device, void** out);
};

}  // namespace kiln::python
