/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the problem and its numbers, converts numbers, and has the protocol, for the C programs of peers.sh and for figures.c; peer.h
 * describes the functions.
 */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peer.h"

/* The milliseconds of a turn's warm-up, and of its calls that count. */
static const double WARM_MS = 60, TURN_MS = 100;

/* ---- how it ends ---- */

void decline(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("declines ");
	vprintf(format, list);
	printf("\n");
	va_end(list);
	fflush(stdout);
	exit(0);
}

void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	exit(1);
}

void *allocate(size_t bytes)
{
	void *room = aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);

	if (!room)
		fail("no memory for %zu bytes", bytes);
	return memset(room, 0, (bytes + 4096) / 4096 * 4096);
}

/* ---- dtypes ---- */

size_t get_dtype_bytes(const char *dtype)
{
	return !strcmp(dtype, "f64") ? 8 : !strcmp(dtype, "f32") ? 4 : 2;
}

static uint16_t round_to_bf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen_bf16(uint16_t value)
{
	uint32_t bits = (uint32_t)value << 16;
	float wide;

	memcpy(&wide, &bits, 4);
	return wide;
}

/* Returns the bits of an f32 rounded to f16, ties to even: not every compiler has the type. */
static uint16_t narrow_f16(float value)
{
	uint32_t bits, sign;
	float rest;

	memcpy(&bits, &value, 4);
	sign = bits >> 16 & 0x8000;
	bits &= 0x7fffffff;
	if (bits >= 0x47800000)                          /* 2^16, infinite, NaN */
		return (uint16_t)(sign | (bits > 0x7f800000 ? 0x7e00 : 0x7c00));
	if (bits < 0x38800000) {      /* the f16 is subnormal, so a multiple of 2^-24: adding 0.5 rounds the f32 to such a multiple */
		memcpy(&rest, &bits, 4);
		rest += 0.5f;
		memcpy(&bits, &rest, 4);
		return (uint16_t)(sign | (bits - 0x3f000000));
	}
	return (uint16_t)(sign | ((bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13));
}

static float widen_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, bits = (uint32_t)(half & 0x7fff) << 13;
	float value;

	memcpy(&value, &bits, 4);
	value *= 0x1p112f;
	memcpy(&bits, &value, 4);
	if ((half & 0x7c00) == 0x7c00)
		bits |= 0x7f800000;
	bits |= sign;
	memcpy(&value, &bits, 4);
	return value;
}

static void convert_to_f16(const float *from, size_t n, void *to)
{
	for (size_t k = 0; k < n; k++)
		((uint16_t *)to)[k] = narrow_f16(from[k]);
}

static void convert_from_f16(const void *from, size_t n, float *to)
{
	for (size_t k = 0; k < n; k++)
		to[k] = widen_f16(((const uint16_t *)from)[k]);
}

void convert_to(const char *dtype, const float *from, size_t n, void *to)
{
	if (!strcmp(dtype, "f32"))
		memcpy(to, from, n * sizeof *from);
	else if (!strcmp(dtype, "f16"))
		convert_to_f16(from, n, to);
	else if (!strcmp(dtype, "bf16"))
		for (size_t k = 0; k < n; k++)
			((uint16_t *)to)[k] = round_to_bf16(from[k]);
	else if (!strcmp(dtype, "f64"))
		for (size_t k = 0; k < n; k++)
			((double *)to)[k] = from[k];
	else
		decline("no dtype %s", dtype);
}

void convert_from(const char *dtype, const void *from, size_t n, float *to)
{
	if (!strcmp(dtype, "f32"))
		memcpy(to, from, n * sizeof *to);
	else if (!strcmp(dtype, "f16"))
		convert_from_f16(from, n, to);
	else if (!strcmp(dtype, "bf16"))
		for (size_t k = 0; k < n; k++)
			to[k] = widen_bf16(((const uint16_t *)from)[k]);
	else
		for (size_t k = 0; k < n; k++)
			to[k] = (float)((const double *)from)[k];
}

void *convert_new(const char *dtype, const float *from, size_t n)
{
	void *to;

	if (!from)
		return NULL;
	to = allocate(n * get_dtype_bytes(dtype));
	convert_to(dtype, from, n, to);
	return to;
}

void transpose(const float *from, size_t rows, size_t columns, float *to)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < columns; c++)
			to[c * rows + r] = from[r * columns + c];
}

/* ---- the problem ---- */

static const struct { const char *name; size_t gates; int has_c, peephole; } cells[] = {
	{ "lstm", 4, 1, 0 }, { "lstm_peephole", 4, 1, 1 }, { "block_lstm", 4, 1, 0 }, { "gru", 3, 0, 0 }, { "gru_block", 3, 0, 0 },
	{ "rnn_tanh", 1, 0, 0 },
};

static size_t read_number(const char *name, const char *word)
{
	char *end;
	long long value = strtoll(word, &end, 10);

	if (*end || value < 1)
		fail("%s: expected a whole number, got \"%s\"", name, word);
	return (size_t)value;
}

static void read_arguments(struct problem *p, int argc, char **argv)
{
	size_t threads = 0;
	const struct { const char *name, **text; size_t *number; } arguments[] = {
		{ "--cell", &p->cell, NULL }, { "--dtype", &p->dtype, NULL }, { "--input", &p->input, NULL }, { "--output", &p->output, NULL },
		{ "--T", NULL, &p->T }, { "--B", NULL, &p->B }, { "--I", NULL, &p->I }, { "--H", NULL, &p->H }, { "--threads", NULL, &threads },
	};

	p->grad = 1;
	for (int k = 1; k < argc; k++) {
		const char *name = argv[k];
		size_t n = 0;

		if (!strcmp(name, "--no-grad")) {
			p->grad = 0;
			continue;
		}
		if (!strcmp(name, "--last")) {
			p->last = 1;
			continue;
		}
		while (n < sizeof arguments / sizeof *arguments && strcmp(name, arguments[n].name))
			n++;
		if (n == sizeof arguments / sizeof *arguments || ++k == argc)
			fail("%s: not known, or without a value", name);
		if (arguments[n].text)
			*arguments[n].text = argv[k];
		else
			*arguments[n].number = read_number(name, argv[k]);
	}
	p->threads = (int)threads;
	if (!p->cell || !p->dtype || !p->input || !p->output || !p->T || !p->B || !p->I || !p->H || !threads)
		fail("expected --cell --dtype --input --output --T --B --I --H --threads");
}

struct array { float **at; size_t n; };

/* Moves the arrays that the problem has to the front of the list; returns their number. */
static size_t keep_arrays(struct array *list, size_t n)
{
	size_t kept = 0;

	for (size_t k = 0; k < n; k++)
		if (list[k].n)
			list[kept++] = list[k];
	return kept;
}

/* Lists the input arrays in the order of the file. */
static size_t list_numbers(struct problem *p, struct array list[PEER_ARRAYS])
{
	size_t xs = p->T * p->B * p->I, ys = p->T * p->B * p->H, state = p->B * p->H, c = p->has_c ? state : 0, gates = p->G * p->H;
	struct numbers *in = &p->in;
	const struct array all[PEER_ARRAYS] = {
		{ &in->x, xs }, { &in->h0, state }, { &in->c0, c }, { &in->w, gates * p->I }, { &in->r, gates * p->H }, { &in->bw, gates },
		{ &in->br, gates }, { &in->dy, ys }, { &in->dh_n, state }, { &in->dc_n, c }, { &in->peephole, p->peephole ? 3 * p->H : 0 },
	};

	memcpy(list, all, sizeof all);
	return keep_arrays(list, PEER_ARRAYS);
}

static size_t list_answers(struct problem *p, struct array list[PEER_ARRAYS])
{
	size_t xs = p->T * p->B * p->I, ys = p->T * p->B * p->H, state = p->B * p->H, c = p->has_c ? state : 0, gates = p->G * p->H;
	struct answers *out = &p->out;
	const struct array all[PEER_ARRAYS] = {
		{ &out->y, p->last ? 0 : ys }, { &out->h_n, state }, { &out->c_n, c }, { &out->dx, xs }, { &out->dh0, state }, { &out->dc0, c },
		{ &out->dw, gates * p->I }, { &out->dr, gates * p->H }, { &out->db, gates }, { &out->dbr, !strcmp(p->cell, "gru") ? gates : 0 },
		{ &out->dpeephole, p->peephole ? 3 * p->H : 0 },
	};

	memcpy(list, all, sizeof all);
	return keep_arrays(list, p->grad ? PEER_ARRAYS : 3);
}

/* Allocates zeros for each array of the list; returns n. */
static size_t allocate_arrays(const struct array *list, size_t n)
{
	for (size_t k = 0; k < n; k++)
		*list[k].at = allocate(list[k].n * sizeof(float));
	return n;
}

static void read_file(const char *path, const struct array *list, size_t n)
{
	FILE *file = fopen(path, "rb");

	if (!file)
		fail("%s: cannot be read", path);
	for (size_t k = 0; k < n; k++)
		if (fread(*list[k].at, sizeof(float), list[k].n, file) != list[k].n)
			fail("%s: too short", path);
	fclose(file);
}

static void write_file(const char *path, const struct array *list, size_t n)
{
	FILE *file = fopen(path, "wb");

	if (!file)
		fail("%s: cannot be written", path);
	for (size_t k = 0; k < n; k++)
		if (fwrite(*list[k].at, sizeof(float), list[k].n, file) != list[k].n)
			fail("%s: cannot be written", path);
	if (fclose(file))
		fail("%s: cannot be written", path);
}

void read_problem(struct problem *p, int argc, char **argv)
{
	struct array list[PEER_ARRAYS];
	size_t n, k = 0;

	memset(p, 0, sizeof *p);
	read_arguments(p, argc, argv);
	while (k < sizeof cells / sizeof *cells && strcmp(cells[k].name, p->cell))
		k++;
	if (k == sizeof cells / sizeof *cells)
		decline("has no %s", p->cell);
	p->G = cells[k].gates;
	p->has_c = cells[k].has_c;
	p->peephole = cells[k].peephole;
	allocate_arrays(list, list_answers(p, list));
	n = allocate_arrays(list, list_numbers(p, list));
	read_file(p->input, list, n);
}

/* ---- turns ---- */

static double get_milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

struct turn { double least, mean; };

/* Calls `run` for `milliseconds`, at least once; returns the milliseconds of the fastest call and the mean of all calls. */
static struct turn time_turn(void (*run)(void *), void *state, double milliseconds)
{
	double began = get_milliseconds(), before = began, now;
	struct turn turn = { .least = INFINITY };
	int calls = 0;

	do {
		run(state);
		now = get_milliseconds();
		turn.least = fmin(turn.least, now - before);
		before = now;
		calls++;
	} while (now - began < milliseconds);
	turn.mean = (now - began) / calls;
	return turn;
}

double time_calls(void (*run)(void *), void *state)
{
	run(state);
	return time_turn(run, state, 20).least;
}

void serve_turns(const struct problem *p, const char *name, const char *version, const char *settings, void (*run)(void *), void *state)
{
	struct array list[PEER_ARRAYS];
	struct problem copy = *p;
	size_t n = list_answers(&copy, list);
	char line[64];

	write_file(p->output, list, n);
	printf("{\"name\": \"%s\", \"version\": \"%s\", \"settings\": {%s}}\nready\n", name, version, settings);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && !strcmp(line, "go\n")) {
		struct turn turn;

		time_turn(run, state, WARM_MS);
		turn = time_turn(run, state, TURN_MS);
		printf("%.6f %.6f\n", turn.least, turn.mean);
		fflush(stdout);
	}
}
