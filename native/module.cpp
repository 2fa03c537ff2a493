// The extension module: one bind_* function a kernel.
#include "binding.h"

namespace labeltree {
void bind_beam_search(nb::module_&);
void bind_checksum(nb::module_&);
void bind_kmeans(nb::module_&);
void bind_label_vectors(nb::module_&);
void bind_train_nodes(nb::module_&);
void bind_used_features(nb::module_&);
void bind_svm_reader(nb::module_&);
void bind_svm_writer(nb::module_&);
}  // namespace labeltree

NB_MODULE(_native, m) {
    m.doc() = "labeltree's kernels: raw arrays in, raw arrays out.";
    labeltree::bind_beam_search(m);
    labeltree::bind_checksum(m);
    labeltree::bind_kmeans(m);
    labeltree::bind_label_vectors(m);
    labeltree::bind_train_nodes(m);
    labeltree::bind_used_features(m);
    labeltree::bind_svm_reader(m);
    labeltree::bind_svm_writer(m);
}
