// What every binding needs: NumPy arrays in and out, choices by name, and kernels that Ctrl-C can stop.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/checks.h"
#include "common/parallel.h"

namespace labeltree {

namespace nb = nanobind;
using namespace nb::literals;

// Contiguous arrays of one type, in memory or mapped from a file. In is read-only.
template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Numpy = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class... Arguments>
auto span_of(const nb::ndarray<Arguments...>& array) {
    return std::span(array.data(), array.size());
}

// Moves a vector into a NumPy array without a copy.
template <class T>
Numpy<T> to_numpy(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Numpy<T>(kept->data(), {kept->size()}, owner);
}

// A set of choices that Python names by strings.
template <class Choice, size_t N>
using Choices = std::array<std::pair<const char*, Choice>, N>;

template <class Choice, size_t N>
Choice choose(const Choices<Choice, N>& choices, std::string_view wanted, const char* argument) {
    for (const auto& [name, choice] : choices)
        if (wanted == name) return choice;
    std::string message = std::string(argument) + " must be one of";
    for (const auto& [name, choice] : choices)
        message += std::string(name == choices.front().first ? " " : ", ") + name;
    throw std::invalid_argument(message);
}

template <class Choice, size_t N>
nb::tuple names_of(const Choices<Choice, N>& choices) {
    nb::list names;
    for (const auto& [name, choice] : choices) names.append(name);
    return nb::tuple(names);
}

// Runs body(fraction, cancel) while this thread takes the GIL now and then, to handle signals and to call
// progress(fraction), unless it is None. An exception there, such as Ctrl-C, sets cancel.
// The caller has released the GIL, so progress is a handle: references cannot be counted.
template <class Body>
void run_interruptible(nb::handle progress, Body&& body) {
    std::atomic<double> fraction{0};
    Cancel cancel{false};
    const auto watch = [&] {
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (!progress.is_none()) progress(fraction.load());
    };
    run_watched([&] { body(fraction, cancel); }, watch, cancel);
}

// The same for a kernel that reports no progress.
template <class Body>
void run_interruptible(Body&& body) {
    run_interruptible(Py_None, [&](std::atomic<double>&, const Cancel& cancel) { body(cancel); });
}

}  // namespace labeltree
