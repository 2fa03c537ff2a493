// What every binding needs: NumPy arrays in and out, checks that name the argument, and a watch that hears Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "parallel.h"

namespace labeltree {

namespace nb = nanobind;
using namespace nb::literals;

// Read-only, contiguous, of one type: a mapped file is as welcome as an array in memory.
template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Moves a vector into a NumPy array without a copy.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_numpy(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

inline void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

// indptr of a compressed sparse matrix: starts at 0, never falls, ends at the number of entries.
inline void check_indptr(const In<int64_t>& indptr, size_t entries, const char* name) {
    const std::string what(name);
    if (indptr.size() < 1 || indptr.data()[0] != 0) throw std::invalid_argument(what + " must start at 0");
    for (size_t i = 1; i < indptr.size(); ++i)
        if (indptr.data()[i] < indptr.data()[i - 1]) throw std::invalid_argument(what + " must not fall");
    if (static_cast<size_t>(indptr.data()[indptr.size() - 1]) != entries)
        throw std::invalid_argument(what + " must end at the number of entries");
}

inline void check_range(const In<int32_t>& values, int64_t limit, const char* name) {
    for (size_t i = 0; i < values.size(); ++i)
        if (values.data()[i] < 0 || values.data()[i] >= limit)
            throw std::invalid_argument(std::string(name) + " holds an index out of range");
}

// For run_watched, with the GIL released: takes it to hear signals and to tell the progress, a float in [0, 1], to Python.
// A handle, since without the GIL no reference may be counted; the binding's own argument keeps the object alive.
inline std::function<void()> python_watch(nb::handle progress, const std::atomic<double>& fraction) {
    return [progress, &fraction] {
        nb::gil_scoped_acquire hold;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (!progress.is_none()) progress(fraction.load());
    };
}

// Runs body(cancel) with the GIL released, ready to be stopped by Ctrl-C, which sets cancel.
template <class Body>
void run_interruptible(Body&& body) {
    const std::atomic<double> unused{0};
    const auto watch = python_watch(nb::none(), unused);
    Cancel cancel{false};
    nb::gil_scoped_release free;
    run_watched([&] { body(cancel); }, watch, cancel);
}

}  // namespace labeltree
