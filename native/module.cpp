// The extension module: one bind_* function per kernel.
#include <cstdlib>
#include <system_error>

#include "common/binding.h"
#include "common/memory.h"

namespace labeltree {
void bind_beam_search(nb::module_&);
void bind_checksum(nb::module_&);
void bind_compress(nb::module_&);
void bind_handles(nb::module_&);
void bind_held_out(nb::module_&);
void bind_route(nb::module_&);
void bind_kmeans(nb::module_&);
void bind_label_vectors(nb::module_&);
void bind_sparse_check(nb::module_&);
void bind_svm_reader(nb::module_&);
void bind_svm_writer(nb::module_&);
void bind_term_counts(nb::module_&);
void bind_term_weights(nb::module_&);
void bind_train_strips(nb::module_&);
void bind_unit_rows(nb::module_&);
void bind_used_features(nb::module_&);
}  // namespace labeltree

NB_MODULE(_native, m) {
    // A dataset or tree that lives until the interpreter exits keeps its handle: that is not a leak. Tests that let go
    // of all of them ask for the warnings.
    nanobind::set_leak_warnings(std::getenv("LABELTREE_LEAK_WARNINGS") != nullptr);
    m.doc() = "The kernels of labeltree: arrays in, arrays out.";
    // A full disk, or a thread that cannot be started, is an OSError in Python.
    nanobind::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const std::system_error& e) {
            PyErr_SetObject(PyExc_OSError, nanobind::make_tuple(e.code().value(), e.code().message().c_str()).ptr());
        }
    });
    m.def("return_memory_at_once", &labeltree::return_memory_at_once,
          "From now on, return freed arrays to the system at once: less memory, but slower.");
    labeltree::bind_handles(m);  // first: the signatures of the kernels name its classes
    labeltree::bind_beam_search(m);
    labeltree::bind_checksum(m);
    labeltree::bind_held_out(m);
    labeltree::bind_route(m);
    labeltree::bind_compress(m);
    labeltree::bind_kmeans(m);
    labeltree::bind_label_vectors(m);
    labeltree::bind_sparse_check(m);
    labeltree::bind_svm_reader(m);
    labeltree::bind_svm_writer(m);
    labeltree::bind_term_counts(m);
    labeltree::bind_term_weights(m);
    labeltree::bind_train_strips(m);
    labeltree::bind_unit_rows(m);
    labeltree::bind_used_features(m);
}
