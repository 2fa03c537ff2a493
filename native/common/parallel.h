// Threads over an atomic counter of tasks: no thread pool, so nothing is left behind after a fork.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

namespace labeltree {

// Set by the watching thread. Long tasks read it between passes and return early.
using Cancel = std::atomic<bool>;

// Runs task(index, worker) for every index in [0, n_tasks), in order of index as workers become free.
// Worker numbers are in [0, threads). The first exception stops the others and is rethrown here.
template <class Task>
void parallel_for(int64_t n_tasks, int threads, Task&& task) {
    threads = static_cast<int>(std::clamp<int64_t>(threads, 1, std::max<int64_t>(n_tasks, 1)));
    if (threads == 1) {
        for (int64_t i = 0; i < n_tasks; ++i) task(i, 0);
        return;
    }
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_lock;
    auto work = [&](int worker) {
        try {
            for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) task(i, worker);
        } catch (...) {
            const std::scoped_lock hold(failure_lock);
            if (!failure) failure = std::current_exception();
            next.store(n_tasks, std::memory_order_relaxed);
        }
    };
    std::vector<std::thread> workers;
    workers.reserve(threads - 1);
    try {
        for (int w = 1; w < threads; ++w) workers.emplace_back(work, w);
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
        // The system has no more threads: those that run do the work.
    }
    work(0);
    for (auto& w : workers) w.join();
    if (failure) std::rethrow_exception(failure);
}

// Runs task(first, last) for the ranges of [0, size) that are `step` long, the last one shorter.
template <class Task>
void parallel_ranges(int64_t size, int64_t step, int threads, Task&& task) {
    parallel_for((size + step - 1) / step, threads,
                 [&](int64_t part, int) { task(part * step, std::min(size, (part + 1) * step)); });
}

// Runs body() on another thread while this one calls watch() about ten times per second.
// If watch() throws (Ctrl-C, or an error in a progress callback), cancel is set, and its exception is rethrown once
// body() has returned.
inline void run_watched(const std::function<void()>& body, const std::function<void()>& watch, Cancel& cancel) {
    std::mutex lock;
    std::condition_variable finished;
    bool done = false;
    std::exception_ptr failure, stop;
    std::thread runner([&] {
        try {
            body();
        } catch (...) {
            failure = std::current_exception();
        }
        const std::scoped_lock hold(lock);
        done = true;
        finished.notify_one();
    });
    {
        std::unique_lock<std::mutex> hold(lock);
        while (!finished.wait_for(hold, std::chrono::milliseconds(100), [&] { return done; })) {
            hold.unlock();
            if (!stop) {
                try {
                    watch();
                } catch (...) {
                    stop = std::current_exception();
                    cancel.store(true);
                }
            }
            hold.lock();
        }
    }
    runner.join();
    if (stop) std::rethrow_exception(stop);
    if (failure) std::rethrow_exception(failure);
}

}  // namespace labeltree
