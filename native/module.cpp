// The extension module: one bind_* function a kernel.
#include "binding.h"

namespace labeltree {
void bind_beam_search(nb::module_&);
void bind_checksum(nb::module_&);
}  // namespace labeltree

NB_MODULE(_native, m) {
    m.doc() = "labeltree's kernels: raw arrays in, raw arrays out.";
    labeltree::bind_beam_search(m);
    labeltree::bind_checksum(m);
}
