/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller's allocator: memory that comes from it returns to it, it can be set only while the library holds no memory, and its refusals
 * are reported as errors. Without a caller's allocator, cg_alloc() asks for huge pages for a large block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"

/* A block has a header that distinguishes it from blocks of the C library: a block that resize() did not make aborts the test. */
enum { HEAD = 64 };
struct pool { long blocks, most; int full; };

static void *resize(void *user, void *p, size_t bytes)
{
	static const char mark[] = "from the test's pool";
	struct pool *pool = user;
	char *q = p ? (char *)p - HEAD : NULL;

	if (q && memcmp(q, mark, sizeof mark))
		abort();
	if (!bytes) {
		pool->blocks--;
		free(q);
		return NULL;
	}
	if (pool->full)
		return NULL;
	q = realloc(q, bytes + HEAD);
	if (!q)
		return NULL;
	if (!p)
		pool->blocks++;
	if (pool->blocks > pool->most)
		pool->most = pool->blocks;
	memcpy(q, mark, sizeof mark);
	return q + HEAD;
}

static void test_every_call(void **state)
{
	struct pool pool = { 0 };
	struct cg_allocator allocator = { resize, &pool }, empty = { NULL, NULL };
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_cell *cell;
	float x[4] = { 1, 2, 3, 4 }, h[4];
	struct cg_arg args[] = {
		{ "a", { x, 0, sizeof x, CG_HOST }, 4, 0 }, { "h", { h, 0, sizeof h, CG_HOST }, 4, 0 }
	};
	struct cg_kernel kernel = { .pass = CG_FORWARD, .dtype = CG_F32 };

	(void)state;
	assert_int_equal(cg_set_allocator(&empty), CG_BAD_ARGUMENT);
	assert_int_equal(cg_set_allocator(&allocator), CG_OK);
	assert_int_equal(cg_cell_parse("cell mine\ngates a\noutput h\nh = tanh(a)\n", "mine", &cell), CG_OK);
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	assert_int_equal(cg_set_allocator(NULL), CG_UNSUPPORTED);
	assert_non_null(strstr(cg_message(), "cg_set_allocator: expected a call while the library holds no memory, got one while it holds "));
	kernel.cell = cell;
	pool.full = 1;
	assert_int_equal(cg_kernel_run(stream, &kernel, 1, 4, args, 2), CG_NO_MEMORY);
	pool.full = 0;
	assert_int_equal(cg_kernel_run(stream, &kernel, 1, 4, args, 2), CG_OK);
	assert_true(pool.most > 3);
	cg_stream_close(stream);
	cg_close(context);
	cg_cell_close(cell);
	assert_int_equal(pool.blocks, 0);
	assert_int_equal(cg_set_allocator(NULL), CG_OK);
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(pool.blocks, 0);
	cg_close(context);
}

/* Has the mapping of this address the flag of MADV_HUGEPAGE? */
static int asks_for_huge_pages(const void *address)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512];
	int is_here = 0, asks = 0;

	assert_non_null(file);
	while (fgets(line, sizeof line, file)) {
		unsigned long long first, end;

		if (sscanf(line, "%llx-%llx ", &first, &end) == 2)
			is_here = first <= (uintptr_t)address && (uintptr_t)address < end;
		else if (is_here && !strncmp(line, "VmFlags:", 8))
			asks = strstr(line, " hg") != NULL;
	}
	fclose(file);
	return asks;
}

/* Does the system show the flag of MADV_HUGEPAGE for memory of the test's own?  Linux shows the flag; qemu-user ignores madvise(). */
static int shows_who_asks(void)
{
#ifdef MADV_HUGEPAGE
	enum { BYTES = 4 << 20 };
	char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int shows;

	assert_true(own != MAP_FAILED);
	shows = !madvise(own, BYTES, MADV_HUGEPAGE) && asks_for_huge_pages(own);
	munmap(own, BYTES);
	return shows;
#else
	return 0;
#endif
}

/* cg_prefer_huge_pages() asks for huge pages for a program's own memory, but not with NULL, half a page or a size that no memory has. */
static void test_own_memory(void **state)
{
	enum { HUGE = 2 << 20 };
	char *own;

	(void)state;
	cg_prefer_huge_pages(NULL, 4 * HUGE);
	if (!shows_who_asks()) {
		print_message("# this system does not say who asks for huge pages\n");
		skip();
	}
	own = mmap(NULL, 4 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(own != MAP_FAILED);
	cg_prefer_huge_pages(own, HUGE / 2);
	cg_prefer_huge_pages(own, SIZE_MAX);
	assert_false(asks_for_huge_pages(own + 2 * HUGE));
	cg_prefer_huge_pages(own, 4 * HUGE);
	assert_true(asks_for_huge_pages(own + 2 * HUGE));
	munmap(own, 4 * HUGE);
}

static void test_huge_pages(void **state)
{
	struct cg_context *context;
	struct cg_mem large, small;

	(void)state;
	if (!shows_who_asks()) {
		print_message("# this system does not say who asks for huge pages\n");
		skip();
	}
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_alloc(context, 64 << 20, &large), CG_OK);
	assert_int_equal(cg_alloc(context, 4096, &small), CG_OK);
	assert_true(asks_for_huge_pages((char *)large.data + (32 << 20)));
	assert_false(asks_for_huge_pages(small.data));
	cg_free(context, &large);
	cg_free(context, &small);
	cg_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_call), cmocka_unit_test(test_huge_pages),
	                                    cmocka_unit_test(test_own_memory) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("allocator", tests, NULL, NULL);
}
