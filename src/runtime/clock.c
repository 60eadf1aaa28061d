/* clock.c - monotonic time. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/state.h"

#include <time.h>

double an_clock(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
