/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cpu backend.  Those kernels of the built-in cells that `cellgen bundle` prints are compiled at build time for several instruction
 * sets, of which one is chosen when a device opens; other kernels are interpreted.  launch.c launches kernels, gemm_tiles.c computes
 * products, and team.c has the threads that share both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "runtime/core/environment.h"

/* Chooses the instruction set that CELLGRAD_CPU_ISA names.  If that variable is unset, chooses the first instruction set in cg_isas that
 * this processor can run and that is_best_here(), if the set has this function, does not rule out. */
static int choose(const struct cg_isa **isa)
{
	const char *wanted = cg_variable_get(CG_ENV_CPU_ISA);
	char names[128] = "";

	CG_TRY(cg_variable_read(CG_ENV_CPU_ISA, NULL));
	for (*isa = cg_isas; (*isa)->name; (*isa)++) {
		if (!(*isa)->runs_here())
			continue;
		if (wanted ? !strcmp(wanted, (*isa)->name) : !(*isa)->is_best_here || (*isa)->is_best_here())
			return CG_OK;
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? ", " : "", (*isa)->name);
	}
	return cg_fail(CG_BAD_ARGUMENT, "CELLGRAD_CPU_ISA: expected one of %s, which this build has and this processor can run, got '%.40s'",
	               names, wanted);
}

/* Sets the number of threads to CELLGRAD_CPU_THREADS; if that is unset, to one for each processor that the process may run on and whose
 * time its quota covers. */
static int count_threads(int *threads)
{
	int most = cg_count_processors();
	uint64_t n = (uint64_t)cg_limit_by_quota("", most);

	if (cg_variable_read(CG_ENV_CPU_THREADS, &n) || n > (uint64_t)most)
		return cg_fail(CG_BAD_ARGUMENT, "CELLGRAD_CPU_THREADS: expected 1 to %d, the processors that this process may run on, "
		               "got '%.40s'", most, cg_variable_get(CG_ENV_CPU_THREADS));
	*threads = (int)n;
	return CG_OK;
}

/* Reads the number of threads from the text "threads=N" after "cpu:" in a device's name.  For any other text after "cpu:" the
 * message says what is expected there; the result is CG_NO_DEVICE for the number of a device, and CG_BAD_ARGUMENT for all else, as on the
 * other backends. */
static int read_threads(const char *where, int *threads)
{
	static const char key[] = "threads=";
	int most = cg_count_processors();
	const char *number;
	char *end = NULL;
	long n;

	if (strncmp(where, key, sizeof key - 1))
		return cg_fail(*where && !where[strspn(where, "0123456789")] ? CG_NO_DEVICE : CG_BAD_ARGUMENT,
		               "expected cpu, cpu:0 or, with a number of threads, cpu:threads=N, got cpu:%.40s", where);
	number = where + sizeof key - 1;
	n = *number >= '0' && *number <= '9' ? strtol(number, &end, 10) : 0;
	if (n < 1 || n > most || *end)
		return cg_fail(CG_BAD_ARGUMENT, "threads: expected 1 to %d, the processors that this process may run on, got '%.40s'", most, number);
	*threads = (int)n;
	return CG_OK;
}

/* Loads OpenBLAS for an instruction set whose own big products are slower than OpenBLAS's (field takes_blas).  If takes_blas is 1 and the
 * environment names a library that cannot be used as OpenBLAS, choose_blas() fails. */
static int choose_blas(const struct cg_isa *isa, const struct cg_openblas **blas)
{
	static const struct cg_openblas none = { .why = "OpenBLAS is not faster with this instruction set" };

	*blas = isa->takes_blas ? cg_load_openblas() : &none;
	return (*blas)->is_refused ? cg_fail(CG_BAD_ARGUMENT, "CELLGRAD_OPENBLAS_LIB: %s", (*blas)->why) : CG_OK;
}

static void describe_into(const struct cg_isa *isa, const struct cg_openblas *blas, int threads, const char *whose, char *about, size_t bytes)
{
	snprintf(about, bytes, "kernels %s; products %s (%s); %d thread%s%s", isa->name, blas->sgemm ? "OpenBLAS" : "our own",
	         blas->why, threads, threads == 1 ? "" : "s", whose);
}

static const char *list(int i, char *about, size_t bytes)
{
	const struct cg_openblas *blas;
	const struct cg_isa *isa;
	int threads;

	if (i)
		return NULL;
	if (choose(&isa) || choose_blas(isa, &blas) || count_threads(&threads))
		snprintf(about, bytes, "%s", cg_message());
	else
		describe_into(isa, blas, threads, "", about, bytes);
	return "";
}

static int open_device(const char *where, struct cg_dev **result)
{
	const struct cg_openblas *blas;
	struct cg_dev *device;
	const struct cg_isa *isa;
	int threads = 0;

	if (where && strcmp(where, "0"))
		CG_TRY(read_threads(where, &threads));
	CG_TRY(choose(&isa));
	CG_TRY(choose_blas(isa, &blas));
	if (!threads)
		CG_TRY(count_threads(&threads));
	device = cg_memory(NULL, sizeof *device);
	if (!device)
		return CG_NO_MEMORY;
	memset(device, 0, sizeof *device);
	pthread_mutex_init(&device->lock, NULL);
	device->isa = isa;
	device->blas = blas;
	device->threads = threads;
	memcpy(device->about, "cpu: ", 6);
	describe_into(isa, blas, threads, "", device->about + 5, sizeof device->about - 5);
	*result = device;
	return CG_OK;
}

static void close_device(struct cg_dev *device)
{
	cg_team_close(device->team);
	pthread_mutex_destroy(&device->lock);
	cg_memory(device, 0);
}

static const char *describe(const struct cg_dev *device)
{
	return device->about;
}

static int supports(const struct cg_dev *device, int dtype)
{
	(void)device;
	(void)dtype;
	return CG_OK;
}

/* Makes the device compute in a caller's thread pool; called while no queue of the device is open. */
static int use_pool(struct cg_dev *device, const struct cg_pool *pool)
{
	struct cg_team *team;

	CG_TRY(cg_team_pool(pool, &team));
	pthread_mutex_lock(&device->lock);
	cg_team_close(device->team);
	device->team = team;
	device->started = 1;
	pthread_mutex_unlock(&device->lock);
	device->threads = pool->threads;
	describe_into(device->isa, device->blas, device->threads, " of the caller's", device->about + 5, sizeof device->about - 5);
	return CG_OK;
}

/* Sets *team to the device's team; the first call starts the team's threads, unless the caller gave a thread pool. */
static int borrow_team(struct cg_dev *device, struct cg_team **team)
{
	int code = CG_OK;

	pthread_mutex_lock(&device->lock);
	if (!device->started)
		code = cg_team_open(device->threads, &device->team);
	device->started = code == CG_OK;
	*team = device->team;
	pthread_mutex_unlock(&device->lock);
	return code;
}

static int start(struct cg_dev *device, void *native, struct cg_queue **result)
{
	struct cg_queue *queue;
	struct cg_team *team;

	if (native)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_open: native: the cpu has no queues of its own: expected NULL");
	CG_TRY(borrow_team(device, &team));
	queue = cg_memory(NULL, sizeof *queue);
	if (!queue)
		return CG_NO_MEMORY;
	*queue = (struct cg_queue){ .device = device, .team = team };
	*result = queue;
	return CG_OK;
}

static int sync_queue(struct cg_queue *queue)
{
	(void)queue;
	return CG_OK;
}

static void stop(struct cg_queue *queue)
{
	cg_memory(queue->scratch, 0);
	cg_memory(queue, 0);
}

static int alloc(struct cg_dev *device, struct cg_queue *queue, size_t bytes, struct cg_mem *mem)
{
	void *data = cg_memory(NULL, bytes);

	(void)device;
	(void)queue;
	if (!data)
		return CG_NO_MEMORY;
	*mem = (struct cg_mem){ data, 0, bytes, CG_DEVICE };
	return CG_OK;
}

static void free_mem(struct cg_dev *device, struct cg_queue *queue, struct cg_mem *mem)
{
	(void)device;
	(void)queue;
	cg_memory(mem->data, 0);
}

static void *address(struct cg_mem mem)
{
	return mem.data ? (char *)mem.data + mem.offset : NULL;
}

static int check(struct cg_dev *device, struct cg_mem mem)
{
	(void)device;
	(void)mem;
	return CG_OK;
}

static int copy_in(struct cg_queue *queue, struct cg_mem to, const void *from, size_t bytes)
{
	(void)queue;
	memmove(address(to), from, bytes);
	return CG_OK;
}

static int copy_out(struct cg_queue *queue, void *to, struct cg_mem from, size_t bytes)
{
	(void)queue;
	memmove(to, address(from), bytes);
	return CG_OK;
}

/* CLEARED: the number of bytes of memory that one thread clears at a time. */
enum { CLEARED = 1 << 17 };
struct block { char *at; size_t bytes; };

static void clear(void *context, int64_t k, int thread)
{
	const struct block *block = context;
	size_t from = (size_t)k * CLEARED;

	(void)thread;
	memset(block->at + from, 0, block->bytes - from < CLEARED ? block->bytes - from : CLEARED);
}

static int zero(struct cg_queue *queue, struct cg_mem mem, size_t bytes)
{
	struct block block = { address(mem), bytes };

	cg_team_run(queue->team, (int64_t)(bytes / CLEARED + (bytes % CLEARED != 0)), clear, &block);
	return CG_OK;
}

static int build(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	struct cg_module *built = cg_memory(NULL, sizeof *built);
	/* compiled kernels are used for the library's own cells alone: a user's cell with the name of one has the same keys */
	int compiled = cg_is_listed(plan->cell);

	if (!built)
		return CG_NO_MEMORY;
	memset(built, 0, sizeof *built);
	built->plan = plan;
	for (int p = 0; p < plan->n_functions; p++) {
		for (const struct cg_compiled *const *table = device->isa->kernels; compiled && *table && !built->call[p]; table++)
			for (const struct cg_compiled *row = *table; row->key; row++)
				if (!strcmp(row->key, plan->functions[p].key))
					built->call[p] = row->call;
		if (!built->call[p]) {
			size_t bytes = cg_strip_bytes(plan, &plan->functions[p]);

			built->strip_bytes = bytes > built->strip_bytes ? bytes : built->strip_bytes;
		}
	}
	*result = built;
	return CG_OK;
}

static void release(struct cg_dev *device, struct cg_module *built)
{
	(void)device;
	cg_memory(built, 0);
}

extern const struct cg_backend cg_backend_cpu;
const struct cg_backend cg_backend_cpu = {
	.name = "cpu", .host = 1,
	.list = list, .open = open_device, .close = close_device, .describe = describe, .supports = supports,
	.use_pool = use_pool, .start = start, .sync = sync_queue, .stop = stop,
	.alloc = alloc, .free = free_mem, .check = check, .copy_in = copy_in, .copy_out = copy_out, .zero = zero,
	.build = build, .release = release, .launch = cg_cpu_launch, .gemm = cg_cpu_gemm, .packed = cg_cpu_packed, .pack = cg_cpu_pack,
	.rows = cg_cpu_copy_rows, .scan_work = cg_cpu_scan_work, .scans_at_once = cg_cpu_scans_at_once, .scan = cg_cpu_scan,
};
