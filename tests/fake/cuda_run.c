/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a launch: its blocks one after the other in random order, and in each block its threads likewise. In a kernel with barriers each
 * thread has a stack of its own, and the threads run in random order from one barrier to the next. Each memory
 * access is checked for which the compiler emitted a call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#if defined __SSE__
#include <xmmintrin.h>
#endif

#include "cuda.h"

enum { THREADS = 1024, STACK_BYTES = 1 << 17, NAN_BYTE = 0xff };

/* ---- switching between stacks ---- */

/* __builtin_setjmp() and __builtin_longjmp(), which switch between stacks on x86-64 alone, take a hundredth of the time of the system's
   swapcontext(), which saves the signal mask. */
#if defined __x86_64__
#define LEAPS 1
#else
#define LEAPS 0
#endif

struct fiber {
	void *where[5];
	ucontext_t context;
	char *stack;
	enum { UNMADE, RESTING, AT_BARRIER, STARTED } state;
	int line;                                /* the line of the barrier at which the thread waits */
};
static struct fiber fibers[THREADS], scheduler, *active;

#if LEAPS
static __attribute__((noinline)) void jump(struct fiber *to)
{
	__builtin_longjmp(to->where, 1);
}

static __attribute__((noinline)) void leap(struct fiber *from, struct fiber *to, int first)
{
	if (__builtin_setjmp(from->where))
		return;
	if (first)
		setcontext(&to->context);
	jump(to);
}
#else
static void jump(struct fiber *to)
{
	setcontext(&to->context);
}

static void leap(struct fiber *from, struct fiber *to, int first)
{
	(void)first;
	swapcontext(&from->context, &to->context);
}
#endif

/* ---- what is running ---- */

/* For every two bytes of shared memory, since no element is smaller: which thread wrote and read them last, and in which epoch. Barriers
   and blocks separate epochs. */
enum { CELL_BYTES = 2 };
struct cell { uint32_t written, read; uint16_t writer, reader; };
enum { SEVERAL = 0xffff };

static struct {
	struct launch *launch;
	const struct fake_kernel *kernel;
	const struct fake_object *object;
	struct cell *cells;
	size_t n_cells;
	uint32_t epoch, block_epoch;             /* epoch: the current one; block_epoch: that in which the block began */
	unsigned thread;
	const char *outermost;                   /* the outermost address of the current thread's stack */
	int code;                                /* the error code of the launch; 0: none */
} run;

/* Sets whether subnormals are zero, in arguments and results, where the processor is x86 or a 64-bit ARM; returns the setting for
   restore_flush(). */
static unsigned set_flush(int flush)
{
#if defined __SSE__
	unsigned before = _mm_getcsr();

	_mm_setcsr(flush ? before | 0x8040 : before & ~0x8040u);
	return before;
#elif defined __aarch64__
	uint64_t before;

	__asm__ volatile("mrs %0, fpcr" : "=r"(before));
	__asm__ volatile("msr fpcr, %0" : : "r"(flush ? before | 1 << 24 : before & ~(UINT64_C(1) << 24)));
	return (unsigned)before;
#else
	return (void)flush, 0;
#endif
}

static void restore_flush(unsigned before)
{
#if defined __SSE__
	_mm_setcsr(before);
#elif defined __aarch64__
	__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before));
#else
	(void)before;
#endif
}

/* Reports a mistake of the running thread, and ends the thread and the launch. */
static void fault(int code, const char *what)
{
	const struct fake_dim *b = run.object->block, *t = run.object->thread;

	fake_report("%s: block %u %u %u, thread %u %u %u: %s", run.kernel->name, b->x, b->y, b->z, t->x, t->y, t->z, what);
	run.code = code;
	jump(&scheduler);
}

/* ---- every access ---- */

static const char *race(struct cell *c, int store)
{
	unsigned t = run.thread;

	if (c->written == run.epoch && c->writer != t)
		return store ? "writes shared memory that another thread writes, with no barrier between"
		             : "reads shared memory that another thread writes, with no barrier between";
	if (store && c->read == run.epoch && c->reader != t)
		return "writes shared memory that another thread reads, with no barrier between";
	if (!store && c->written < run.block_epoch)
		return "reads shared memory that its block never wrote";
	if (store) {
		c->written = run.epoch;
		c->writer = (uint16_t)t;
	} else {
		c->reader = c->read == run.epoch && c->reader != t ? SEVERAL : (uint16_t)t;
		c->read = run.epoch;
	}
	return NULL;
}

static void access_shared(size_t offset, size_t bytes, int store)
{
	for (size_t k = offset / CELL_BYTES; k <= (offset + bytes - 1) / CELL_BYTES; k++) {
		const char *why = k < run.n_cells ? race(&run.cells[k], store) : "goes beyond shared memory";

		if (why)
			fault(LAUNCH_FAILED, why);
	}
}

static void access_device(uint64_t at, size_t bytes, int store)
{
	static const char *const wrong[][2] = {
		[FAKE_SPARE]   = { "reads", "writes" },
		[FAKE_FRESH]   = { "reads what nobody wrote:", "" },
		[FAKE_FREED]   = { "reads freed memory:", "writes freed memory:" },
		[FAKE_PENDING] = { "reads memory that is not there yet:", "writes memory that is not there yet:" },
	};
	unsigned char *states = fake_memory.shadow + (at - fake_memory.base);
	char text[300];

	for (size_t k = 0; k < bytes; k++) {
		unsigned state = at + k - fake_memory.base < fake_memory.used ? states[k] : FAKE_SPARE;

		if (state == FAKE_WRITTEN || (store && state == FAKE_FRESH))
			continue;
		snprintf(text, sizeof text, "%s %s", wrong[state][store], fake_where(fake_address(at + k)));
		fault(ILLEGAL_ADDRESS, text);
	}
	if (store)
		memset(states, FAKE_WRITTEN, bytes);
}

static void access_memory(uint64_t at, size_t bytes, int store)
{
	const char *address = (const char *)(uintptr_t)at, *here = (const char *)__builtin_frame_address(0);
	char text[160];

	if (at - fake_memory.base < fake_memory.used)
		access_device(at, bytes, store);
	else if (address >= run.object->shared && address < run.object->shared_end)
		access_shared((size_t)(address - run.object->shared), bytes, store);
	else if ((address < here || address >= run.outermost) &&
	         (store || address < run.object->image || address >= run.object->image_end)) {
		snprintf(text, sizeof text, "%s %p, which is not device memory", store ? "writes" : "reads", (const void *)address);
		fault(ILLEGAL_ADDRESS, text);
	}
}

static void mistake(const char *what, const char *file, unsigned line, uint64_t value)
{
	char text[300];

	snprintf(text, sizeof text, "%s:%u: %s (%#llx)", file ? file : "?", line, what, (unsigned long long)value);
	fault(strstr(what, "address") ? MISALIGNED_ADDRESS : LAUNCH_FAILED, text);
}

/* ---- threads ---- */

static void pass_barrier(int line)
{
	struct fiber *self = active;

	self->state = AT_BARRIER;
	self->line = line;
	leap(self, &scheduler, 0);
}

const struct fake_calls fake_calls = { &fake_memory, access_memory, pass_barrier, mistake };

static void set_thread(unsigned k)
{
	struct fake_dim d = run.launch->block;

	run.thread = k;
	*run.object->thread = (struct fake_dim){ k % d.x, k / d.x % d.y, k / d.x / d.y };
}

/* Visits 0 to n - 1 in random order. */
struct order { uint64_t n, step, at; };

static struct order shuffle(uint64_t n)
{
	struct order o = { n, 1, fake_random((uint32_t)(n < 0xffffffff ? n : 0xffffffff)) };

	for (int tries = 0; tries < 20 && n > 2; tries++) {
		uint64_t step = 1 + fake_random((uint32_t)(n < 0xffff ? n - 1 : 0xffff)), a = n, b = step;

		while (b) {
			uint64_t rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			o.step = step;
	}
	return o;
}

static uint64_t next(struct order *o)
{
	uint64_t at = o->at;

	o->at = (o->at + o->step) % o->n;
	return at;
}

/* Fiber k runs thread k of one block after the other, in one launch after the other. */
static void fiber_main(void)
{
	for (;;) {
		set_flush(run.launch->function->module->flush);
		run.kernel->run(run.launch->arguments);
		active->state = RESTING;
		leap(active, &scheduler, 0);
	}
}

static void make_fiber(struct fiber *fiber)
{
	if (!fiber->stack) {
		fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (fiber->stack == MAP_FAILED || mprotect(fiber->stack, 4096, PROT_NONE))
			abort();
	}
	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = fiber->stack;
	fiber->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&fiber->context, fiber_main, 0);
}

static void resume(unsigned k)
{
	struct fiber *fiber = &fibers[k];
	int first = fiber->state == UNMADE;

	if (first)
		make_fiber(fiber);
	set_thread(k);
	run.outermost = fiber->stack + STACK_BYTES;
	active = fiber;
	fiber->state = STARTED;
	leap(&scheduler, fiber, first);
	/* A thread that was aborted has left its stack in the middle of the kernel, so its fiber is made again. */
	if (run.code)
		fiber->state = UNMADE;
}

/* Runs each thread of a block from the start or a barrier to the next barrier or the end; returns 1 if threads wait at a barrier. */
static int run_round(unsigned n)
{
	struct order order = shuffle(n);
	unsigned waiting = 0, ended = 0;
	int line = 0;
	char text[160];

	for (unsigned k = 0; k < n && !run.code; k++) {
		struct fiber *fiber = &fibers[next(&order)];

		resume((unsigned)(fiber - fibers));
		waiting += fiber->state == AT_BARRIER;
		ended += fiber->state == RESTING;
		if (fiber->state == AT_BARRIER && line && fiber->line != line) {
			snprintf(text, sizeof text, "threads wait at the barriers of lines %d and %d", line, fiber->line);
			fake_report("%s: %s", run.kernel->name, text);
			run.code = LAUNCH_FAILED;
		}
		if (fiber->state == AT_BARRIER)
			line = fiber->line;
	}
	run.epoch++;
	if (waiting && ended && !run.code) {
		fake_report("%s: a barrier at line %d that %u of %u threads do not reach", run.kernel->name, line, ended, n);
		run.code = LAUNCH_FAILED;
	}
	return waiting && !run.code;
}

static void run_block_with_barriers(unsigned n)
{
	while (run_round(n))
		;
	if (run.code)
		for (unsigned k = 0; k < THREADS; k++)
			if (fibers[k].state != RESTING)
				fibers[k].state = UNMADE;
}

static __attribute__((noinline)) void run_threads(unsigned n)
{
	struct order order = shuffle(n);

	run.outermost = __builtin_frame_address(0);
	for (unsigned k = 0; k < n; k++) {
		set_thread((unsigned)next(&order));
		run.kernel->run(run.launch->arguments);
	}
}

/* Without a barrier threads run to their end on the host's own stack; a fault returns to run_block(). */
static __attribute__((noinline)) void run_block(unsigned n)
{
#if LEAPS
	if (!__builtin_setjmp(scheduler.where))
		run_threads(n);
#else
	volatile int back = 0;

	getcontext(&scheduler.context);
	if (!back++)
		run_threads(n);
#endif
}

/* ---- the launch ---- */

/* Fills shared memory with NaNs, since what it held before is undefined. */
static void begin_block(uint64_t k)
{
	struct fake_dim d = run.launch->grid;

	*run.object->block = (struct fake_dim){ (unsigned)(k % d.x), (unsigned)(k / d.x % d.y), (unsigned)(k / d.x / d.y) };
	if (run.n_cells)
		memset(run.object->shared, NAN_BYTE, (size_t)(run.object->shared_end - run.object->shared));
	run.block_epoch = ++run.epoch;
}

static void prepare(struct launch *l)
{
	static size_t capacity;

	run.launch = l;
	run.kernel = l->function->kernel;
	run.object = l->function->module->object;
	run.n_cells = (size_t)(run.object->shared_end - run.object->shared + CELL_BYTES - 1) / CELL_BYTES;
	run.code = 0;
	*run.object->threads = l->block;
	*run.object->blocks = l->grid;
	if (run.n_cells > capacity) {
		run.cells = realloc(run.cells, run.n_cells * sizeof *run.cells);
		if (!run.cells)
			abort();
		capacity = run.n_cells;
	}
	/* Epochs grow through the life of the process; before they could overflow, they start again. */
	if (run.epoch > UINT32_MAX / 2)
		run.epoch = 0;
	memset(run.cells, 0, run.n_cells * sizeof *run.cells);
}

int fake_run(void *data)
{
	struct launch *l = data;
	unsigned threads = l->block.x * l->block.y * l->block.z, before;
	uint64_t n = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
	struct order order = shuffle(n);

	prepare(l);
	before = set_flush(l->function->module->flush);
	for (uint64_t k = 0; k < n && !run.code; k++) {
		begin_block(next(&order));
		if (run.kernel->barriers)
			run_block_with_barriers(threads);
		else
			run_block(threads);
	}
	restore_flush(before);
	return run.code;
}
