// Loaded before kernels that were compiled with LABELTREE_TRACE: counts which of their branches are run, for libFuzzer.
#include <stddef.h>
#include <stdint.h>

enum { n_places = 1 << 16 };
static uint8_t counters[n_places];
static struct {
    uintptr_t address, flags;
} places[n_places];

// Called by the compiled code at every branch. Several addresses may share a counter.
void __sanitizer_cov_trace_pc(void) {
    const uint64_t address = (uint64_t)(uintptr_t)__builtin_return_address(0);
    const size_t place = (address * 0x9E3779B97F4A7C15u) >> 48;
    ++counters[place];
    places[place].address = (uintptr_t)address;
}

int traced(void) {
    int n = 0;
    for (size_t i = 0; i < n_places; ++i) n += places[i].address != 0;
    return n;
}

// Gives the counters to libFuzzer, whose functions these are.
void announce(void (*counters_init)(uint8_t*, uint8_t*), void (*places_init)(const uintptr_t*, const uintptr_t*)) {
    counters_init(counters, counters + n_places);
    places_init((const uintptr_t*)places, (const uintptr_t*)(places + n_places));
}
