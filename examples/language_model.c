/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a language model of characters by truncated backpropagation through time: each row of the batch is a part of a text, a step reads
 * the next piece of each row, and the last states of a piece are the initial states of the next one.
 *
 *	language_model [-n STEPS] [-c FILE] [TEXT]
 *
 * -c FILE continues from the checkpoint in FILE, if there is one, and saves a checkpoint there at the end.  A run of 20 steps, continued
 * by 20 more from its checkpoint, prints the same losses as a run of 40 steps, to the last bit.  TEXT is by default
 * command/demo/alice.txt, the text of cellgrad's demo; CELLGRAD_BACKEND names the backend.
 */
#include <cellgrad.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, LENGTH = 32, PLACES = ROWS * LENGTH, LAYERS = 2, UNITS = 128, GATES = 4 };

struct training {
	unsigned char *text, next[PLACES];       /* symbols: byte values, numbered in the order in which they first occur */
	/* A checkpoint is `place` and the first n_saved floats of `kept`: everything that a step passes to the next step. */
	struct place { char kind[8]; int64_t symbols, characters, step, pass, at; } place;
	float *kept, *weights, *mean, *square, *h, *c;
	float *gradient, *x, *y, *next_h, *next_c;
	size_t n, n_h, n_c, n_saved;              /* numbers of floats: of params, of h, of c, of a checkpoint */
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn *network;
	struct cg_mem reserve;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "language_model: %s: %s\n", what, why);
	exit(1);
}

static void check(int status)
{
	if (status)
		die("cellgrad", cg_message());
}

/* ---- the text ---- */

static void read_text(struct training *t, const char *path)
{
	int number[256] = { 0 }, symbols = 0;
	long n = 0;
	FILE *file = fopen(path, "rb");

	if (!file || fseek(file, 0, SEEK_END) || (n = ftell(file)) < 0)
		die(path, "cannot be read");
	rewind(file);
	t->text = malloc((size_t)n + 1);
	if (!t->text || fread(t->text, 1, (size_t)n, file) != (size_t)n)
		die(path, "cannot be read");
	fclose(file);
	for (long k = 0; k < n; k++) {
		if (!number[t->text[k]])
			number[t->text[k]] = ++symbols;
		t->text[k] = (unsigned char)(number[t->text[k]] - 1);
	}
	t->place = (struct place){ .kind = "train 1", .symbols = symbols, .characters = n };
	if (n <= ROWS * (LENGTH + 1) || symbols > UNITS)
		die(path, "expected a text of more than 528 bytes, with at most 128 different byte values");
}

/* Reads the next piece of each row.  At the end of the rows all rows begin again, with zero initial states. */
static void read_piece(struct training *t)
{
	int64_t row = (t->place.characters - 1) / ROWS, symbols = t->place.symbols;

	if (t->place.at + LENGTH > row) {
		t->place.at = 0;
		t->place.pass++;
		memset(t->h, 0, (t->n_h + t->n_c) * sizeof(float));
	}
	memset(t->x, 0, (size_t)(PLACES * symbols) * sizeof(float));
	for (int k = 0; k < PLACES; k++) {
		const unsigned char *at = t->text + k % ROWS * row + t->place.at + k / ROWS;

		t->x[k * symbols + at[0]] = 1;
		t->next[k] = at[1];
	}
}

/* ---- the network ---- */

/* Opens the network.  A projection makes the output as wide as the number of symbols: an output is the scores of the next symbol. */
static void open_network(struct training *t)
{
	struct cg_rnn_config c;
	struct cg_rnn_sizes sizes;

	cg_rnn_config_init(&c, sizeof c);
	c.layers = LAYERS;
	c.input = c.proj = t->place.symbols;
	c.units = UNITS;
	c.dropout = 0.1;
	c.seed = 1;
	check(cg_open(NULL, &t->context));
	check(cg_stream_open(t->context, NULL, &t->stream));
	check(cg_rnn_open(t->context, &c, &t->network));
	check(cg_rnn_sizes(t->network, LENGTH, ROWS, NULL, &sizes));
	check(cg_alloc(t->context, sizes.reserve, &t->reserve));
	t->n = sizes.params / sizeof(float);
}

static void take_memory(struct training *t)
{
	size_t piece = (size_t)(PLACES * t->place.symbols);

	t->n_h = (size_t)(LAYERS * ROWS * t->place.symbols);
	t->n_c = LAYERS * ROWS * UNITS;
	t->n_saved = 3 * t->n + t->n_h + t->n_c;
	t->kept = calloc(t->n_saved + t->n + 2 * piece + t->n_h + t->n_c, sizeof(float));
	if (!t->kept)
		die("memory", "there is not enough");
	t->mean = (t->weights = t->kept) + t->n;
	t->square = t->mean + t->n;
	t->c = (t->h = t->square + t->n) + t->n_h;
	t->gradient = t->c + t->n_c;
	t->x = t->gradient + t->n;
	t->y = t->x + piece;
	t->next_c = (t->next_h = t->y + piece) + t->n_h;
}

/* Sets the initial weights.  The weights are small, except those of the first layer's input matrices, of which a character reads one
 * column.  The forget gate's bias makes this gate open at first. */
static void first_weights(struct training *t)
{
	struct cg_rnn_region r;

	srand(1);
	for (int layer = 0; layer < LAYERS; layer++) {
		for (int id = 0; id <= 2 * GATES; id++) {
			float bound = layer == 0 && id < GATES ? 2 : id == 2 * GATES ? 0.3f : 0.1f;

			check(cg_rnn_region(t->network, layer, id, 0, &r));
			for (int64_t k = 0; k < r.rows * r.columns; k++)
				t->weights[r.offset + k] = bound * (2.0f * (float)rand() / (float)RAND_MAX - 1);
		}
		check(cg_rnn_region(t->network, layer, 1, 1, &r));
		for (int64_t k = 0; k < r.rows * r.columns; k++)
			t->weights[r.offset + k] = 1;
	}
}

/* ---- a step ---- */

static struct cg_mem host(void *data, size_t n)
{
	return (struct cg_mem){ data, 0, n * sizeof(float), CG_HOST };
}

/* Returns the mean loss in bits per character, and replaces the scores by the gradient of that loss, in nats. */
static double softmax(float *scores, const unsigned char *right, int64_t n, int64_t symbols)
{
	double loss = 0;

	for (int k = 0; k < n; k++, scores += symbols) {
		double most = scores[0], sum = 0;

		for (int s = 1; s < symbols; s++)
			most = fmax(most, scores[s]);
		for (int s = 0; s < symbols; s++)
			sum += exp(scores[s] - most);
		loss += log(sum) + most - scores[right[k]];
		for (int s = 0; s < symbols; s++)
			scores[s] = (float)((exp(scores[s] - most) / sum - (s == right[k])) / n);
	}
	return loss / n / log(2);
}

/* Adam (Kingma and Ba 2015). */
static void learn(struct training *t)
{
	double steps = (double)++t->place.step, rate = 0.01 * sqrt(1 - pow(0.99, steps)) / (1 - pow(0.9, steps));

	for (size_t k = 0; k < t->n; k++) {
		t->mean[k] += 0.1f * (t->gradient[k] - t->mean[k]);
		t->square[k] += 0.01f * (t->gradient[k] * t->gradient[k] - t->square[k]);
		t->weights[k] -= (float)(rate * t->mean[k] / (sqrt(t->square[k]) + 1e-8));
	}
}

static double step(struct training *t)
{
	size_t piece = (size_t)(PLACES * t->place.symbols);
	struct cg_rnn_call call;
	double loss;

	read_piece(t);
	cg_rnn_call_init(&call, sizeof call);
	call.T = LENGTH;
	call.B = ROWS;
	call.counter = (uint64_t)t->place.pass;          /* each pass over the text is one long sequence, with its own dropout masks */
	call.first_step = t->place.at;                   /* the time step at which the piece begins, from the start of the pass */
	call.params = host(t->weights, t->n);
	call.reserve = t->reserve;
	call.input = host(t->x, piece);
	call.input_h = host(t->h, t->n_h);
	call.input_c = host(t->c, t->n_c);
	call.output = host(t->y, piece);
	call.output_h = host(t->next_h, t->n_h);
	call.output_c = host(t->next_c, t->n_c);
	check(cg_rnn_forward(t->stream, t->network, &call));

	loss = softmax(t->y, t->next, PLACES, t->place.symbols);
	call.output_backprop = host(t->y, piece);
	call.params_backprop = host(t->gradient, t->n);
	check(cg_rnn_backward(t->stream, t->network, &call));

	memcpy(t->h, t->next_h, (t->n_h + t->n_c) * sizeof(float));
	t->place.at += LENGTH;
	learn(t);
	return loss;
}

/* ---- the checkpoint ---- */

static void load(struct training *t, const char *path)
{
	struct place p, *here = &t->place;
	FILE *file = fopen(path, "rb");

	if (!file)
		return;                                  /* the first run: there is no checkpoint yet */
	if (fread(&p, sizeof p, 1, file) != 1 || memcmp(p.kind, here->kind, sizeof p.kind) || p.symbols != here->symbols ||
	    p.characters != here->characters || fread(t->kept, sizeof(float), t->n_saved, file) != t->n_saved || getc(file) != EOF)
		die(path, "expected a checkpoint of this text");
	*here = p;
	fclose(file);
}

/* Writes the checkpoint under another name and renames it, so that the old checkpoint stays until the new one is complete. */
static void save(const struct training *t, const char *path)
{
	char other[FILENAME_MAX];
	FILE *file;

	if (snprintf(other, sizeof other, "%s.new", path) >= (int)sizeof other || !(file = fopen(other, "wb")) ||
	    fwrite(&t->place, sizeof t->place, 1, file) != 1 ||
	    fwrite(t->kept, sizeof(float), t->n_saved, file) != t->n_saved || fclose(file) || rename(other, path))
		die(path, "cannot be written");
}

int main(int argc, char **argv)
{
	static struct training t;
	const char *text = "command/demo/alice.txt", *checkpoint = NULL;
	long steps = 100;

	for (int k = 1; k < argc; k++)
		if (!strcmp(argv[k], "-n") && k + 1 < argc)
			steps = atol(argv[++k]);
		else if (!strcmp(argv[k], "-c") && k + 1 < argc)
			checkpoint = argv[++k];
		else
			text = argv[k];
	read_text(&t, text);
	open_network(&t);
	take_memory(&t);
	first_weights(&t);
	if (checkpoint)
		load(&t, checkpoint);
	for (; steps > 0; steps--) {
		double loss = step(&t);

		printf("%6lld  %.17g\n", (long long)t.place.step, loss);
	}
	if (checkpoint)
		save(&t, checkpoint);
	cg_free(t.context, &t.reserve);
	cg_rnn_close(t.network);
	cg_stream_close(t.stream);
	cg_close(t.context);
	free(t.kept);
	free(t.text);
	return 0;
}
