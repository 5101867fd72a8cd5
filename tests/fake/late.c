/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend `late`: a list of commands for each queue, with copies of their operands. The backend checks rules of
 * runtime/device/backend.h whose breach a driver may not notice, such as: memory of another device or queue, or freed memory; two builds at
 * a time; functions released while they are enqueued; objects closed before what they contain.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device/device.h"
#include "tests/fake/late.h"

extern const struct cg_backend cg_backend_cpu, cg_backend_late;

/* NEW, GONE: the byte that fills allocated and freed memory; a thread sleeps PAUSE microseconds before one in RESTS commands. */
enum { NEW = 0xff, GONE = 0xdd, PAUSE = 20, RESTS = 8 };

/* A block of device memory: the address of this struct is the handle.  A block stays in its device's list to the end, so that a stale
   handle is recognised. */
struct block {
	struct block *next;
	struct cg_queue *queue;                  /* the only queue that may use the block; NULL: any queue */
	char *at;
	size_t bytes;
	long uses;                               /* the number of uses by enqueued commands */
	int given_back;
};

/* In each object `cpu` is the cpu backend's object, which does the work. */
struct cg_dev { void *cpu; struct block *blocks; long queues, builds; int building; };
struct cg_module { const struct cg_pass_plan *plan; void *cpu; struct cg_dev *device; long uses; };

enum kind { PUT, GET, ZERO, COPY, LAUNCH, GEMM, PACK, ROWS };

struct command {
	struct command *next;
	enum kind kind;
	struct cg_mem to, from;
	void *host;                              /* the host memory of a copy to the device or back */
	size_t bytes;
	struct cg_module *built;
	int function;
	int64_t rows, units;
	struct cg_operand operands[CG_SLOTS_MAX];
	struct cg_gemm gemm;
	struct cg_rows move;
	struct cg_mem *mems[CG_SLOTS_MAX];       /* the fields above with memory that this command uses; blocks: the memory's blocks */
	struct block *blocks[CG_SLOTS_MAX];
	int n;
};

struct cg_queue {
	struct cg_queue *next;
	struct cg_dev *device;
	void *cpu;
	struct command *first, **last;
	int by_thread, ran, stops, code;         /* code, message: of the first command that failed since the last wait */
	char message[512];
	pthread_t thread;
	pthread_cond_t changed;
};

/* One lock for all devices and queues. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cg_queue *queues;
static enum late_when when;
static long live, enqueued, builds;
static unsigned building;                        /* microseconds that a build takes at least */
static char mistake[256];

/* ---- what tests query ---- */

/* wrong() is called under the lock, and so are uses(), find(), release(), is_right(), append(), finish(), run_first(), drain() and
   unlink_queue(). */
__attribute__((format(printf, 1, 2)))
static int wrong(const char *format, ...)
{
	va_list list;
	char message[sizeof mistake];

	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	if (!*mistake)
		memcpy(mistake, message, sizeof message);
	return cg_fail(CG_DRIVER, "late: %s", message);
}

void late_runs(enum late_when w)
{
	when = w;
}

void late_builds_take(unsigned microseconds)
{
	building = microseconds;
}

const char *late_mistake(void)
{
	static _Thread_local char message[sizeof mistake];

	pthread_mutex_lock(&lock);
	memcpy(message, mistake, sizeof message);
	*mistake = 0;
	pthread_mutex_unlock(&lock);
	return *message ? message : NULL;
}

static long read_long(long *from, int clears)
{
	long is;

	pthread_mutex_lock(&lock);
	is = *from;
	if (clears)
		*from = 0;
	pthread_mutex_unlock(&lock);
	return is;
}

long late_enqueued(void)
{
	return read_long(&enqueued, 0);
}

long late_builds(void)
{
	return read_long(&builds, 1);
}

long late_held(void)
{
	return read_long(&live, 0);
}

static int uses(const void *host, size_t bytes)
{
	uintptr_t from = (uintptr_t)host;
	int n = 0;

	for (const struct cg_queue *q = queues; q; q = q->next)
		for (const struct command *c = q->first; c; c = c->next) {
			uintptr_t start = (uintptr_t)c->host;

			n += c->host && start < from + bytes && from < start + c->bytes;
		}
	return n;
}

int late_uses(const void *host, size_t bytes)
{
	int n;

	pthread_mutex_lock(&lock);
	n = uses(host, bytes);
	pthread_mutex_unlock(&lock);
	return n;
}

void late_look(const void *function, size_t bytes)
{
	pthread_mutex_lock(&lock);
	if (uses(function, bytes))
		wrong("memory of the host is given back while a copy uses it");
	pthread_mutex_unlock(&lock);
}

/* ---- device memory ---- */

static struct block *find(const struct cg_dev *device, const void *handle)
{
	struct block *b = device->blocks;

	while (b && b != handle)
		b = b->next;
	return b;
}

static void release(struct block *b)
{
	if (!b->given_back || b->uses || !b->at)
		return;
	memset(b->at, GONE, b->bytes);
	free(b->at);
	b->at = NULL;
}

static int alloc(struct cg_dev *device, struct cg_queue *queue, size_t bytes, struct cg_mem *mem)
{
	struct block *b = malloc(sizeof *b);
	char *at = bytes <= PTRDIFF_MAX ? malloc(bytes) : NULL;

	if (!b || !at) {
		free(b);
		free(at);
		return cg_fail(CG_NO_MEMORY, "late: no memory for %zu bytes", bytes);
	}
	memset(at, NEW, bytes);
	pthread_mutex_lock(&lock);
	*b = (struct block){ device->blocks, queue, at, bytes, 0, 0 };
	device->blocks = b;
	live++;
	pthread_mutex_unlock(&lock);
	*mem = (struct cg_mem){ b, 0, bytes, CG_DEVICE };
	return CG_OK;
}

static void free_mem(struct cg_dev *device, struct cg_queue *queue, struct cg_mem *mem)
{
	struct block *b;

	pthread_mutex_lock(&lock);
	b = find(device, mem->data);
	if (!b || b->given_back) {
		wrong("device memory is given back %s", b ? "twice" : "that is not the device's");
	} else {
		if (b->queue != queue)
			wrong("device memory of a queue is given back by another, or by none");
		b->given_back = 1;
		live--;
		release(b);
	}
	pthread_mutex_unlock(&lock);
}

/* check() is called outside the lock. */
static int check(struct cg_dev *device, struct cg_mem mem)
{
	struct block *b;
	int code = CG_OK;

	pthread_mutex_lock(&lock);
	b = find(device, mem.data);
	if (!b || b->given_back)
		code = cg_fail(CG_BAD_ARGUMENT, "the memory is not of this context");
	else if (mem.offset > b->bytes || mem.bytes > b->bytes - mem.offset)
		code = cg_fail(CG_BAD_ARGUMENT, "expected memory of at least %zu + %zu bytes, got %zu", mem.offset, mem.bytes, b->bytes);
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---- commands ---- */

/* Records which memory a command uses; absent memory is skipped. */
static void reads_memory(struct command *c, struct cg_mem *mem)
{
	if (mem->data)
		c->mems[c->n++] = mem;
}

static int is_right(const struct cg_queue *queue, const struct cg_mem *mem)
{
	const struct block *b = mem->place == CG_DEVICE ? find(queue->device, mem->data) : NULL;

	if (mem->place != CG_DEVICE)
		return wrong("a command got the host's memory");
	if (!b || b->given_back)
		return wrong("a command got memory that %s", b ? "was given back" : "is not the device's");
	if (b->queue && b->queue != queue)
		return wrong("a command got another queue's memory");
	/* The number of bytes of a matrix without rows may be negative, that is, larger than PTRDIFF_MAX; it is not checked. */
	if (mem->offset > b->bytes || (mem->bytes <= PTRDIFF_MAX && mem->bytes > b->bytes - mem->offset))
		return wrong("a command got %zu + %zu bytes of %zu", mem->offset, mem->bytes, b->bytes);
	return CG_OK;
}

static int append(struct cg_queue *queue, struct command *c)
{
	for (int k = 0; k < c->n; k++)
		CG_TRY(is_right(queue, c->mems[k]));
	for (int k = 0; k < c->n; k++) {
		c->blocks[k] = c->mems[k]->data;
		c->blocks[k]->uses++;
	}
	if (c->built)
		c->built->uses++;
	*queue->last = c;
	queue->last = &c->next;
	enqueued++;
	pthread_cond_broadcast(&queue->changed);
	return CG_OK;
}

/* enqueue() is called outside the lock. The queue owns a command from the call of enqueue() on. */
static int enqueue(struct cg_queue *queue, struct command *c)
{
	int code;

	pthread_mutex_lock(&lock);
	code = append(queue, c);
	pthread_mutex_unlock(&lock);
	if (code)
		free(c);
	return code;
}

static struct command *make_command(enum kind kind)
{
	struct command *c = calloc(1, sizeof *c);

	if (!c)
		abort();
	c->kind = kind;
	return c;
}

static int copy_in(struct cg_queue *queue, struct cg_mem to, const void *from, size_t bytes)
{
	struct command *c = make_command(PUT);

	c->to = to;
	c->host = (void *)(uintptr_t)from;
	c->bytes = bytes;
	reads_memory(c, &c->to);
	return enqueue(queue, c);
}

static int copy_out(struct cg_queue *queue, void *to, struct cg_mem from, size_t bytes)
{
	struct command *c = make_command(GET);

	c->from = from;
	c->host = to;
	c->bytes = bytes;
	reads_memory(c, &c->from);
	return enqueue(queue, c);
}

static int zero(struct cg_queue *queue, struct cg_mem mem, size_t bytes)
{
	struct command *c = make_command(ZERO);

	c->to = mem;
	c->bytes = bytes;
	reads_memory(c, &c->to);
	return enqueue(queue, c);
}

static int copy(struct cg_queue *queue, struct cg_mem to, struct cg_mem from, size_t bytes)
{
	struct command *c = make_command(COPY);

	c->to = to;
	c->from = from;
	c->bytes = bytes;
	reads_memory(c, &c->to);
	reads_memory(c, &c->from);
	return enqueue(queue, c);
}

static int launch(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                  const struct cg_operand *operands)
{
	const struct cg_function *p = &built->plan->functions[function];
	struct command *c = make_command(LAUNCH);

	c->built = (struct cg_module *)built;
	c->function = function;
	c->rows = rows;
	c->units = units;
	for (int k = 0; k < p->n_arguments; k++)
		if (cg_is_parameter(p, &p->arguments[k])) {
			c->operands[k] = operands[k];
			reads_memory(c, &c->operands[k].mem);
		}
	return enqueue(queue, c);
}

static int product(struct cg_queue *queue, const struct cg_gemm *g, enum kind kind)
{
	struct command *c = make_command(kind);

	c->gemm = *g;
	reads_memory(c, &c->gemm.a.mem);
	reads_memory(c, &c->gemm.b.mem);
	reads_memory(c, &c->gemm.start.mem);
	reads_memory(c, &c->gemm.c.mem);
	reads_memory(c, &c->gemm.packed);
	return enqueue(queue, c);
}

static int gemm(struct cg_queue *queue, const struct cg_gemm *g, int *left)
{
	*left = CG_LEFT_NOTHING;
	return product(queue, g, GEMM);
}

static int pack(struct cg_queue *queue, const struct cg_gemm *g)
{
	return product(queue, g, PACK);
}

static int rows(struct cg_queue *queue, const struct cg_rows *r)
{
	struct command *c = make_command(ROWS);

	c->move = *r;
	reads_memory(c, &c->move.src.mem);
	reads_memory(c, &c->move.dst.mem);
	reads_memory(c, &c->move.from);
	reads_memory(c, &c->move.to);
	reads_memory(c, &c->move.drop.t);
	reads_memory(c, &c->move.drop.b);
	return enqueue(queue, c);
}

/* ---- running ---- */

/* run_command() is called outside the lock: a command may take long, and other queues run at the same time. */
static int run_command(struct cg_queue *queue, struct command *c)
{
	const struct cg_backend *cpu = &cg_backend_cpu;
	int left;

	for (int k = 0; k < c->n; k++)
		c->mems[k]->data = c->blocks[k]->at;
	switch (c->kind) {
	case PUT:    return cpu->copy_in(queue->cpu, c->to, c->host, c->bytes);
	case GET:    return cpu->copy_out(queue->cpu, c->host, c->from, c->bytes);
	case ZERO:   return cpu->zero(queue->cpu, c->to, c->bytes);
	case COPY:   return cpu->copy_in(queue->cpu, c->to, (char *)c->from.data + c->from.offset, c->bytes);
	case LAUNCH: return cpu->launch(queue->cpu, c->built->cpu, c->function, c->rows, c->units, c->operands);
	case GEMM:   return cpu->gemm(queue->cpu, &c->gemm, &left);
	case PACK:   return cpu->pack(queue->cpu, &c->gemm);
	case ROWS:   return cpu->rows(queue->cpu, &c->move);
	}
	return CG_OK;
}

static void finish(struct cg_queue *queue, struct command *c, int code)
{
	if (code && !queue->code) {
		queue->code = code;
		snprintf(queue->message, sizeof queue->message, "%s", cg_message());
	}
	queue->first = c->next;
	if (!queue->first)
		queue->last = &queue->first;
	for (int k = 0; k < c->n; k++) {
		c->blocks[k]->uses--;
		release(c->blocks[k]);
	}
	if (c->built)
		c->built->uses--;
	enqueued--;
	free(c);
	pthread_cond_broadcast(&queue->changed);
}

/* The command stays in the list while it runs: until it has run, its memory is in use. */
static void run_first(struct cg_queue *queue)
{
	struct command *c = queue->first;
	int code;

	pthread_mutex_unlock(&lock);
	if (queue->by_thread && !(queue->ran++ % RESTS))
		usleep(PAUSE);
	code = run_command(queue, c);
	pthread_mutex_lock(&lock);
	finish(queue, c, code);
}

static void *run_all(void *given)
{
	struct cg_queue *queue = given;

	pthread_mutex_lock(&lock);
	for (;;) {
		while (!queue->first && !queue->stops)
			pthread_cond_wait(&queue->changed, &lock);
		if (!queue->first)
			break;
		run_first(queue);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void drain(struct cg_queue *queue)
{
	while (queue->first)
		if (queue->by_thread)
			pthread_cond_wait(&queue->changed, &lock);
		else
			run_first(queue);
}

static int sync_queue(struct cg_queue *queue)
{
	int code;

	pthread_mutex_lock(&lock);
	drain(queue);
	code = queue->code ? cg_fail(queue->code, "%s", queue->message) : CG_OK;
	queue->code = CG_OK;
	pthread_mutex_unlock(&lock);
	return code;
}

static int start(struct cg_dev *device, void *native, struct cg_queue **result)
{
	struct cg_queue *queue = calloc(1, sizeof *queue), *behind;
	int code = queue ? cg_backend_cpu.start(device->cpu, native, &behind) : cg_fail(CG_NO_MEMORY, "late: no memory for a queue");

	if (code) {
		free(queue);
		return code;
	}
	*queue = (struct cg_queue){ .device = device, .cpu = behind, .by_thread = when == LATE_BY_THREAD };
	queue->last = &queue->first;
	pthread_cond_init(&queue->changed, NULL);
	pthread_mutex_lock(&lock);
	queue->next = queues;
	queues = queue;
	device->queues++;
	live++;
	if (queue->by_thread && pthread_create(&queue->thread, NULL, run_all, queue))
		abort();
	pthread_mutex_unlock(&lock);
	*result = queue;
	return CG_OK;
}

static void unlink_queue(struct cg_queue *queue)
{
	struct cg_queue **at = &queues;

	while (*at != queue)
		at = &(*at)->next;
	*at = queue->next;
	queue->device->queues--;
	live--;
	for (const struct block *b = queue->device->blocks; b; b = b->next)
		if (b->queue == queue && !b->given_back)
			wrong("a queue is stopped before its memory is given back");
}

static void stop(struct cg_queue *queue)
{
	pthread_mutex_lock(&lock);
	drain(queue);
	queue->stops = 1;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&lock);
	if (queue->by_thread)
		pthread_join(queue->thread, NULL);
	pthread_mutex_lock(&lock);
	unlink_queue(queue);
	pthread_mutex_unlock(&lock);
	cg_backend_cpu.stop(queue->cpu);
	pthread_cond_destroy(&queue->changed);
	free(queue);
}

/* ---- functions ---- */

static int build(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	struct cg_module *built = malloc(sizeof *built), *behind = NULL;
	int code;

	if (!built)
		return cg_fail(CG_NO_MEMORY, "late: no memory for functions");
	pthread_mutex_lock(&lock);
	if (device->building++)
		wrong("two builds at a time");
	builds++;
	pthread_mutex_unlock(&lock);
	if (building)
		usleep(building);
	code = cg_backend_cpu.build(device->cpu, plan, &behind);
	pthread_mutex_lock(&lock);
	device->building--;
	if (!code) {
		*built = (struct cg_module){ plan, behind, device, 0 };
		device->builds++;
		live++;
	}
	pthread_mutex_unlock(&lock);
	if (code)
		free(built);
	else
		*result = built;
	return code;
}

static void drop(struct cg_dev *device, struct cg_module *built)
{
	pthread_mutex_lock(&lock);
	if (built->device != device || built->uses)
		wrong("functions are dropped %s", built->uses ? "while they are enqueued" : "that are another device's");
	device->builds--;
	live--;
	pthread_mutex_unlock(&lock);
	cg_backend_cpu.release(device->cpu, built->cpu);
	free(built);
}

/* ---- devices ---- */

static const char *list(int i, char *about, size_t bytes)
{
	return cg_backend_cpu.list(i, about, bytes);
}

static int open_device(const char *where, struct cg_dev **result)
{
	struct cg_dev *device = calloc(1, sizeof *device), *behind;
	int code = device ? cg_backend_cpu.open(where, &behind) : cg_fail(CG_NO_MEMORY, "late: no memory for a device");

	if (code) {
		free(device);
		return code;
	}
	device->cpu = behind;
	pthread_mutex_lock(&lock);
	live++;
	pthread_mutex_unlock(&lock);
	*result = device;
	return CG_OK;
}

static void close_device(struct cg_dev *device)
{
	struct block *next;

	pthread_mutex_lock(&lock);
	if (device->queues || device->builds)
		wrong("a device is closed before its %s", device->queues ? "queues" : "functions");
	live--;
	for (struct block *b = device->blocks; b; b = next) {
		next = b->next;
		live -= !b->given_back;
		if (!b->given_back)
			wrong("a device is closed before its memory");
		b->given_back = 1;
		release(b);
		free(b);
	}
	pthread_mutex_unlock(&lock);
	cg_backend_cpu.close(device->cpu);
	free(device);
}

static const char *describe(const struct cg_dev *device)
{
	return cg_backend_cpu.describe(device->cpu);
}

static int supports(const struct cg_dev *device, int dtype)
{
	return cg_backend_cpu.supports(device->cpu, dtype);
}

static size_t packed(const struct cg_dev *device, const struct cg_gemm *g)
{
	return cg_backend_cpu.packed(device->cpu, g);
}

const struct cg_backend cg_backend_late = {
	.name = "late",
	.list = list, .open = open_device, .close = close_device, .describe = describe, .supports = supports,
	.start = start, .sync = sync_queue, .stop = stop,
	.alloc = alloc, .free = free_mem, .check = check, .copy_in = copy_in, .copy_out = copy_out, .zero = zero, .copy = copy,
	.build = build, .release = drop, .launch = launch, .gemm = gemm, .packed = packed, .pack = pack, .rows = rows,
};
