/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the compiler of cells: whatever the bytes, the compiler rejects them with one error; or it prints each pass of the whole cell with
 * all options, and of its last stage without options, in every dialect with a manifest, or rejects the pass with a message. For one
 * input the compiler may take at most SECONDS and at most PEAK bytes of memory.
 * By itself this file is libFuzzer's entry:
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Igen tests/fuzz/cell_fuzz.c BUILD/templates/embedded.c \
 *           BUILD/templates/shelf.c $(find gen -name '*.c' ! -name cellgen.c ! -name strip.c) -lm
 * With FUZZ_REPLAY and replay.c it is a program that needs no libFuzzer; its seeds are the built-in cells and five more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gen/cell.h"

enum { PEAK = 64 << 20, SECONDS = 20 };      /* limits for the processing of one input */

#define MUST(truth) do { if (!(truth)) wrong(__LINE__, #truth); } while (0)

static struct cg_mistake mistake;

static void wrong(int line, const char *truth)
{
	fprintf(stderr, "cell_fuzz.c:%d: not so: %s (mistake: %s)\n", line, truth, mistake.text);
	abort();
}

/* ---- memory: counted, and refused at a request ---- */

static struct { size_t live, peak; unsigned long requests, fail_at; } memory;

static void *resize(void *p, size_t bytes)
{
	size_t *head = p ? (size_t *)p - 2 : NULL;

	if (bytes && ++memory.requests == memory.fail_at)
		return NULL;
	memory.live -= head ? head[0] : 0;
	if (!bytes) {
		free(head);
		return NULL;
	}
	head = realloc(head, bytes + 2 * sizeof *head);
	MUST(head);
	head[0] = bytes;
	memory.live += bytes;
	memory.peak = memory.live > memory.peak ? memory.live : memory.peak;
	MUST(memory.peak < PEAK);
	return head + 2;
}

static int refused(void)
{
	return memory.fail_at && memory.requests >= memory.fail_at;
}

/* ---- one input ---- */

/* Checks an error message: it has at most three lines, and no control characters but newline and tab, since a terminal might obey them;
   it is empty only if memory was refused. */
static void check_mistake(void)
{
	int lines = 0;

	MUST(memchr(mistake.text, 0, sizeof mistake.text));
	MUST(mistake.text[0] || refused());
	for (const char *s = mistake.text; *s; s++) {
		lines += *s == '\n';
		MUST((unsigned char)*s >= ' ' || *s == '\n' || *s == '\t');
		MUST(*s != 0x7f);
	}
	MUST(lines <= 2);
}

/* Checks a printed text: its brackets and comments are closed, it has only printable ASCII, newlines and tabs, and no "..", which stands
   for a constant that is not finite. */
static void check_text(const struct cg_text *text)
{
	long depth = 0;

	MUST(strlen(text->at) == text->length);
	MUST(!strstr(text->at, ".."));
	for (const char *s = text->at; *s; s++) {
		MUST((*s >= ' ' && *s < 0x7f) || *s == '\n' || *s == '\t');
		if (!strncmp(s, "/*", 2)) {
			s = strstr(s + 2, "*/");
			MUST(s);
			s++;
			continue;
		}
		depth += (*s == '(') + (*s == '{') + (*s == '[') - (*s == ')') - (*s == '}') - (*s == ']');
		MUST(depth >= 0);
	}
	MUST(!depth);
}

static void print(const struct cg_pass_plan *plan, int lang)
{
	struct cg_text text = { resize, NULL, 0, 0, 0 }, json = text, header = text;

	if (!cg_print(plan, lang, &text))
		check_text(&text);
	else
		MUST(refused());
	MUST(!cg_print_manifest(plan, lang, &json) || refused());
	MUST(lang != CG_LANG_C || !cg_print_header(plan, &header) || refused());
	resize(text.at, 0);
	resize(json.at, 0);
	resize(header.at, 0);
}

static unsigned long planned;

static void plan(const struct cg_cell *cell, int options, int pass, int stage, int dtype)
{
	struct cg_pass_plan *plan = cg_plan(cell, options, pass, stage, dtype, resize, &mistake);

	if (!plan) {
		check_mistake();
		return;
	}
	planned++;
	MUST(!mistake.text[0]);
	MUST(plan->graph.n <= CG_NODES_MAX);
	for (int lang = 0; lang < CG_LANG_COUNT; lang++)
		print(plan, lang);
	cg_plan_free(plan);
}

/* libFuzzer's entry. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	clock_t began = clock();
	char *text = malloc(n + 1);
	struct cg_cell *cell;

	MUST(text);
	if (n)
		memcpy(text, data, n);
	text[n] = 0;
	memory.peak = 0;
	cell = cg_parse(text, "input", resize, &mistake);
	free(text);
	if (!cell) {
		check_mistake();
	} else {
		int all = (1 << cell->n_options) - 1;

		MUST(!mistake.text[0]);
		for (int pass = 0; pass < CG_PASS_COUNT; pass++) {
			plan(cell, all, pass, 0, pass % 4);
			plan(cell, 0, pass, cell->n_stages, 3 - pass % 4);
		}
		cg_parse_free(cell);
	}
	MUST(!memory.live);
	MUST((double)(clock() - began) / CLOCKS_PER_SEC < SECONDS);
	return 0;
}

#ifdef FUZZ_REPLAY
#include "tests/fuzz/replay.h"

static void built_in(void)
{
	static const char odd[] =
		"cell odd\ngates a_i b\nsplit q\nstate c\noutput h\noption one w v\noption two p_o\nparam k = -1.5e-3, l\n"
		"u = clip(exp(a_i * w) - relu(c_prev), k) / (b + 1)\nstage u\ngates m\nc = step(u) * -(c_prev - 0.1 * l) + m * v\n"
		"x = h_prev * m\nstage x\ngates n\nh = sigmoid(c + q * p_o) * tanh(n) - 2 * h_prev\nsave u c x h\n";
	static const char forms[] =
		"cell forms\ngates a b\nstate c\noutput h\noption one w\nparam k = 3\n"
		"silu = max(a, silu(b * w)) - min(abs(-c_prev), k)\nc = hard_sigmoid(softsign(silu) + a)\n"
		"h = silu(silu(silu(c - h_prev))) * softsign(abs(silu))\nsave silu c h\n";
	static const char roots[] =
		"cell roots\ngates a b\nstate c\noutput h\noption one w\nparam k = 3\n"
		"log1p = log(k + a * a) - log1p(exp(b * w))\nc = sqrt(1 + c_prev * c_prev) * gelu(softplus(log1p) - expm1(a))\n"
		"h = gelu(softplus(gelu(c - h_prev))) * erf(sqrt(4) * log1p)\nsave log1p c h\n";

	static const char learnt[] =
		"cell learnt\ngates a b\ninput i_x\nsplit h_x no bias\nstate c\n"
		"output h\nweight u v\noption one w\nweight y\nscalar tau = 3, s = -1e-3\nparam k = 3\n"
		"weight = tanh(a + u * c_prev * tau) * i_x + h_x\nx = v * h_prev\nstage x\ngates m\nscalar = s * m * (y + w) - k * b\n"
		"c = c_prev * s + weight\nh = tanh(c * tau) * scalar\nsave weight c h\n";

	static const char means[] =
		"cell means\ngates a b\ninput x_a\nstate c\noutput h\nweight g = 1\noption one w = -2\nscalar t = 3\nparam k = 0.1\n"
		"m = mean(a - x_a)\nd = a - m\nu = g * d / sqrt(mean(d * d) + k) + mean(w * c_prev * t)\nstage u\ngates q\n"
		"mean = exp(q - mean(q))\nc = mean / mean(mean) * c_prev + b\nh = tanh(c - mean(mean(c) * h_prev))\nsave m u c h\n";

	for (const struct cg_embedded *e = cg_embedded; e->name; e++) {
		size_t n = strlen(e->name);

		if (n > 5 && !strcmp(e->name + n - 5, ".cell"))
			replay_add_seed(e->text, strlen(e->text));
	}
	replay_add_seed(odd, sizeof odd - 1);
	replay_add_seed(forms, sizeof forms - 1);
	replay_add_seed(roots, sizeof roots - 1);
	replay_add_seed(learnt, sizeof learnt - 1);
	replay_add_seed(means, sizeof means - 1);
}

/* Returns where the line begins in which `at` lies, and in *length its length with its newline. */
static size_t line_of(const unsigned char *b, size_t n, size_t at, size_t *length)
{
	size_t end = at;

	while (at && b[at - 1] != '\n')
		at--;
	while (end < n && b[end] != '\n')
		end++;
	*length = end + (end < n) - at;
	return at;
}

/* Changes a cell's text, mostly in ways that are meaningful in the language: words, operators, whole lines, repeated parts. */
static size_t mutate(unsigned char *b, size_t n)
{
	static const char *const words[] = {
		"a_i", "h", "h_prev", "c_prev", "(", ")", "-", "- -", " + 1", " * 2", " / 0", "tanh(", "clip(", "max(", "abs(",
		"silu(", "softsign(", "hard_sigmoid(silu(", "silu = ", "log(", "log1p(",
		"mean(", "mean(mean(", "mean = ", "sqrt(erf(", "gelu(softplus(", "expm1 = ", ", ", "exp(", "1e37", "1e-40",
		"0", "\nstage h\n", "\ngates x\n", "\nstate s\n", "\noption z z1\n", "\nsave h\n", "\nparam p = 3\n",
		"\nweight y y1\n", "\nweight y = 1\n", "\nscalar s = 2, s1 = 1\n", "weight = ", "\ninput x y no bias\n", "\nsplit b_x\n", " no bias",
		"\noutput o\n", "#",
		"\n", "\r", "\t", "\xef\xbb\xbf", "\x1b[2J", "do", "int", "__", "NULL", "dh", "gdh", "_all", "x_at", "t1", "/*", "*/", "@name@",
		"@@ ", "%s", "\"", "\\\n", "?\?/",
	};
	size_t at = n ? replay_draw(n) : 0, length;
	char part[128];
	const char *word;

	switch (replay_draw(8)) {
	case 0:
		if (n)
			b[at] = (unsigned char)replay_draw(256);
		break;
	case 1:
		if (n)
			b[at] = (unsigned char)" \n()+-*/=,._0123456789acehotxW#"[replay_draw(32)];
		break;
	case 2:
	case 3:
		word = words[replay_draw(sizeof words / sizeof *words)];
		return replay_insert(b, n, at, word, strlen(word));
	case 4:                                   /* removes a line, or copies it elsewhere */
		at = line_of(b, n, at, &length);
		if (replay_draw(2) || length > sizeof part)
			return replay_cut(b, n, at, length);
		memcpy(part, b + at, length);
		at = line_of(b, n, n ? replay_draw(n) : 0, &(size_t){ 0 });
		return replay_insert(b, n, at, part, length);
	case 5:                                   /* repeats a part of the text, so that the text grows */
		length = n - at < 40 ? n - at : 40;
		length = length ? replay_draw(length) : 0;
		memcpy(part, b + at, length);
		for (uint64_t times = replay_draw(replay_draw(8) ? 4 : 400); times; times--)
			n = replay_insert(b, n, at, part, length);
		break;
	case 6:
		if (!replay_draw(10))
			return at;
		break;
	default:
		length = n - at < 20 ? n - at : 20;
		return replay_cut(b, n, at, length ? replay_draw(length) : 0);
	}
	return n;
}

static const char *begin(void)
{
	built_in();
	return NULL;
}

static void refuse(int on)
{
	memory.requests = 0;
	memory.fail_at = !on || replay_draw(8) ? 0 : 1 + replay_draw(200);
}

static void ended(unsigned long long count)
{
	printf("# %lu plans\n", planned);
	MUST(count < 1000 || planned > count / 2);
}

const struct replay replay = { "cell", "texts", 3000, 3, begin, mutate, refuse, NULL, ended };

#endif
