/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the calling thread's floating-point state for the library's arithmetic, and restores the state before.
 */
#include "backends/cpu/cpu.h"

#if defined(__SSE2__)
#include <xmmintrin.h>

/* bits of MXCSR.  DEFAULT: all exceptions masked, rounding to nearest; FLUSH: FTZ and DAZ */
enum { DEFAULT = 0x1f80, FLUSH = 0x8040 };

static unsigned long get(void)
{
	return _mm_getcsr();
}

static void set(unsigned long state)
{
	_mm_setcsr((unsigned)state);
}

#elif defined(__aarch64__)

enum { DEFAULT = 0, FLUSH = 1 << 24 };           /* bits of register FPCR: DEFAULT, no traps and rounding to nearest; FLUSH, FZ */

static unsigned long get(void)
{
	unsigned long state;

	__asm__ volatile("mrs %0, fpcr" : "=r"(state));
	return state;
}

static void set(unsigned long state)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(state));
}

#else

/* on other processors the floating-point state stays as it is */
enum { DEFAULT = 0, FLUSH = 0 };

static unsigned long get(void)
{
	return 0;
}

static void set(unsigned long state)
{
	(void)state;
}

#endif

struct cg_float_state cg_float_enter(int dtype)
{
	struct cg_float_state state = { get() };

	set(DEFAULT | (dtype == CG_F64 ? 0 : FLUSH));
	return state;
}

void cg_float_leave(struct cg_float_state state)
{
	set(state.saved);
}
