/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of characters. The library computes the network and its gradient, in training with one call of each for a batch. All arguments of
 * the network's calls but the reserve space are in the host's memory, so that any backend can compute the calls and another backend can
 * continue a training. The softmax, its loss and the optimiser are loops in one fixed order, so that the same seed gives the same bits
 * where the network gives the same bits.
 */
#include <math.h>
#include <string.h>

#include "command/demo/model.h"
#include "runtime/device/inspect.h"

enum { LANES = 16, LINE = 64 };
enum { GATES = 4, FORGET = 1, PEEPHOLES = 3 };           /* of the cell */
static const double dropout = 0.1;

static size_t area(int rows, int columns)
{
	return (size_t)rows * (size_t)columns;
}

static struct cg_mem host(const real *data, size_t n)
{
	return (struct cg_mem){ (void *)data, 0, n * sizeof(real), CG_HOST };
}

/* ---- the network ---- */

static int connect(struct model *m, struct cg_context *context)
{
	struct cg_rnn_config c;
	struct cg_rnn_sizes sizes;

	m->context = context;
	cg_rnn_config_init(&c, sizeof c);
	c.cell = m->shape.cell ? m->shape.cell : cg_cell_find("lstm");
	c.options = m->shape.cell ? "" : "peephole";
	c.dtype = MODEL_DTYPE;
	c.layers = MODEL_LAYERS;
	c.input = m->shape.symbols;
	c.units = m->shape.units;
	c.dropout = dropout;
	c.seed = m->seed;
	CG_TRY(cg_stream_open(context, NULL, &m->stream));
	CG_TRY(cg_rnn_open(context, &c, &m->learning));
	c.training = 0;
	CG_TRY(cg_rnn_open(context, &c, &m->reading));
	CG_TRY(cg_rnn_sizes(m->learning, m->shape.steps, m->shape.rows, NULL, &sizes));
	return cg_alloc(context, sizes.reserve, &m->reserve);
}

static void disconnect(struct model *m)
{
	if (m->context)
		cg_free(m->context, &m->reserve);
	cg_rnn_close(m->reading);
	cg_rnn_close(m->learning);
	cg_stream_close(m->stream);
	m->reading = m->learning = NULL;
	m->stream = NULL;
	m->context = NULL;
}

int model_move(struct model *m, struct cg_context *context)
{
	disconnect(m);
	return connect(m, context);
}

/* ---- memory ---- */

static int measure(struct model *m)
{
	struct cg_rnn_sizes sizes;

	CG_TRY(cg_rnn_sizes(m->learning, 0, 0, NULL, &sizes));
	m->at[MODEL_OUT_W] = sizes.params / sizeof(real);
	m->at[MODEL_OUT_B] = m->at[MODEL_OUT_W] + area(m->shape.units, m->shape.symbols);
	m->n = m->at[MODEL_PARTS] = m->at[MODEL_OUT_B] + (size_t)m->shape.symbols;
	return CG_OK;
}

static size_t states(const struct model *m, int rows)
{
	return MODEL_LAYERS * area(rows, m->shape.units);
}

static int alloc_memory(struct model *m)
{
	size_t state = states(m, m->shape.rows), c = state * (size_t)m->n_states, positions = area(m->shape.steps, m->shape.rows);
	size_t scores = positions * (size_t)m->shape.symbols, hidden = positions * (size_t)m->shape.units;
	const struct { real **at; size_t n; } parts[] = {
		{ &m->p, m->n }, { &m->g, m->n }, { &m->mean, m->n }, { &m->square, m->n },
		{ &m->carry[MODEL_LEARNT].h, state }, { &m->carry[MODEL_LEARNT].c, c },
		{ &m->carry[MODEL_OTHER].h, state }, { &m->carry[MODEL_OTHER].c, c },
		{ &m->carry[MODEL_SAMPLED].h, state }, { &m->carry[MODEL_SAMPLED].c, c },
		{ &m->last.h, state }, { &m->last.c, c }, { &m->x, scores }, { &m->h, hidden }, { &m->dh, hidden },
		{ &m->score, scores }, { &m->out_w_across, area(m->shape.symbols, m->shape.units) },
	};
	enum { PARTS = sizeof parts / sizeof *parts };
	size_t total = 0, line = LINE / sizeof(real);
	real *free_from;

	for (int k = 0; k < PARTS; k++)
		total += (parts[k].n + line - 1) / line * line;
	m->memory = cg_memory(NULL, total * sizeof(real) + LINE);
	if (!m->memory)
		return CG_NO_MEMORY;
	memset(m->memory, 0, total * sizeof(real) + LINE);
	free_from = (real *)(((uintptr_t)m->memory + LINE - 1) / LINE * LINE);
	for (int k = 0; k < PARTS; k++) {
		*parts[k].at = free_from;
		free_from += (parts[k].n + line - 1) / line * line;
	}
	return CG_OK;
}

/* ---- random numbers: splitmix64 (Steele, Lea and Flood 2014) ---- */

/* A uniform random number in [0, 1), from the upper 53 bits of the generator's next word. */
static double uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

static void draw_uniform(real *p, size_t n, double bound, uint64_t *seed)
{
	for (size_t k = 0; k < n; k++)
		p[k] = (real)(bound * (2 * uniform(seed) - 1));
}

/* The largest magnitude of the random weights of a matrix or peephole. The weights of the first layer's input are large, since a step reads
 * only one of them for each gate and unit; other matrices are summed over the units. The weights of the second layer's input are larger
 * than that layer's recurrent weights and peepholes, since the layer's input is small. */
static double bound_of(int layer, int id, int units)
{
	return id >= GATES ? 1 / sqrt(units) : layer ? 3 / sqrt(units) : 3;
}

/* Sets the initial parameters.  For a cell that the caller chose, the library initialises the network's parameters.  For the LSTM, biases
 * are zero, except that one of the forget gate's two biases is 1, so that the cell keeps its state from the start. */
static int begin(struct model *m, uint64_t seed)
{
	struct cg_rnn_region r;

	if (m->shape.cell)
		CG_TRY(cg_rnn_init_params(m->learning, "xavier_uniform orthogonal zeros", seed, host(m->p, m->at[MODEL_OUT_W])));
	for (int layer = 0; layer < MODEL_LAYERS && !m->shape.cell; layer++) {
		for (int id = 0; id <= 2 * GATES + PEEPHOLES; id++) {
			CG_TRY(cg_rnn_region(m->learning, layer, id, 0, &r));
			draw_uniform(m->p + r.offset, (size_t)(r.rows * r.columns), bound_of(layer, id, m->shape.units), &seed);
		}
		CG_TRY(cg_rnn_region(m->learning, layer, FORGET, 1, &r));
		for (int unit = 0; unit < m->shape.units; unit++)
			m->p[r.offset + unit] = 1;
	}
	draw_uniform(m->p + m->at[MODEL_OUT_W], m->at[MODEL_OUT_B] - m->at[MODEL_OUT_W], 1 / sqrt(m->shape.units), &seed);
	return CG_OK;
}

int model_open(struct model *m, struct cg_context *context, struct model_shape shape, uint64_t seed)
{
	struct cg_cell_parts parts;

	memset(m, 0, sizeof *m);
	m->shape = shape;
	m->seed = seed;
	cg_cell_parts_init(&parts, sizeof parts);
	CG_TRY(cg_cell_info(shape.cell ? shape.cell : cg_cell_find("lstm"), &parts));
	m->n_states = parts.n_states;
	CG_TRY(connect(m, context));
	CG_TRY(measure(m));
	CG_TRY(alloc_memory(m));
	return begin(m, seed);
}

void model_close(struct model *m)
{
	disconnect(m);
	cg_memory(m->memory, 0);
	memset(m, 0, sizeof *m);
}

void model_reset(struct model *m, int carry)
{
	size_t bytes = states(m, m->shape.rows) * sizeof(real);

	memset(m->carry[carry].h, 0, bytes);
	memset(m->carry[carry].c, 0, bytes * (size_t)m->n_states);
}

/* ---- rows of different lengths ---- */

/* Does place k of a batch [T B] hold a symbol, and not padding? */
static int is_valid(const struct model_batch *p, int k)
{
	return k / p->rows < p->lengths[k % p->rows];
}

static void one_hot(const struct model *m, const struct model_batch *p)
{
	int symbols = m->shape.symbols;

	memset(m->x, 0, area(p->steps * p->rows, symbols) * sizeof(real));
	for (int k = 0; k < p->steps * p->rows; k++)
		if (is_valid(p, k))
			m->x[area(k, symbols) + (size_t)p->symbols[k]] = 1;
}

/* Moves those rows of h [T B U] that are no padding to the front of h, and returns their number. */
static int gather(const struct model *m, const struct model_batch *p)
{
	size_t units = (size_t)m->shape.units, n = 0;

	for (int k = 0; k < p->steps * p->rows; k++)
		if (is_valid(p, k))
			memmove(m->h + n++ * units, m->h + (size_t)k * units, units * sizeof(real));
	return (int)n;
}

/* Moves the n rows at the front of dh to those places in dh [T B U] that are no padding. */
static void scatter(const struct model *m, const struct model_batch *p, int n)
{
	size_t units = (size_t)m->shape.units, from = (size_t)n;

	for (int k = p->steps * p->rows - 1; k >= 0; k--)
		if (is_valid(p, k))
			memmove(m->dh + (size_t)k * units, m->dh + --from * units, units * sizeof(real));
}

/* ---- the softmax ---- */

/* A matrix in memory: the index of its element (i, j) is i * row + j * column. */
struct matrix { const real *at; size_t row, column; };

/* Computes the matrix product c [m n] = a b, with a [m k] and b [k n]; each sum is added in the order of k. */
static void product(size_t m, size_t n, size_t k, struct matrix a, const real *b, real *c)
{
	for (size_t j = 0; j < n; j += LANES) {
		size_t width = n - j < LANES ? n - j : LANES;

		for (size_t i = 0; i < m; i++) {
			const real *from = a.at + i * a.row, *with = b + j;
			real sum[LANES] = { 0 };

			for (size_t s = 0; s < k; s++, from += a.column, with += n)
				if (width == LANES)
					for (int lane = 0; lane < LANES; lane++)
						sum[lane] += *from * with[lane];
				else
					for (size_t lane = 0; lane < width; lane++)
						sum[lane] += *from * with[lane];
			memcpy(c + i * n + j, sum, width * sizeof(real));
		}
	}
}

/* Computes the softmax's scores from the first `rows` rows of h. */
static void scores(const struct model *m, int rows)
{
	size_t symbols = (size_t)m->shape.symbols, units = (size_t)m->shape.units;
	const real *bias = m->p + m->at[MODEL_OUT_B];

	product((size_t)rows, symbols, units, (struct matrix){ m->h, units, 1 }, m->p + m->at[MODEL_OUT_W], m->score);
	for (int k = 0; k < rows; k++)
		for (size_t s = 0; s < symbols; s++)
			m->score[(size_t)k * symbols + s] += bias[s];
}

/* The loss of one row of scores, in nats. The row is replaced by the gradient of that loss times `share`. */
static double softmax_loss(real *score, int n, int right, real share)
{
	real most = score[0], sum = 0, to_right = score[right];

	for (int k = 1; k < n; k++)
		most = score[k] > most ? score[k] : most;
	for (int k = 0; k < n; k++)
		sum += score[k] = (real)exp(score[k] - most);
	for (int k = 0; k < n; k++)
		score[k] *= share / sum;
	score[right] -= share;
	return log(sum) - (to_right - most);
}

/* Computes the gradients of the softmax's weights and biases, and of h, from the gradients of n rows of scores. */
static void softmax_grad(struct model *m, int n)
{
	size_t symbols = (size_t)m->shape.symbols, units = (size_t)m->shape.units, rows = (size_t)n;
	const real *out_w = m->p + m->at[MODEL_OUT_W];
	real *bias = m->g + m->at[MODEL_OUT_B];

	product(units, symbols, rows, (struct matrix){ m->h, 1, units }, m->score, m->g + m->at[MODEL_OUT_W]);
	memset(bias, 0, symbols * sizeof(real));
	for (size_t k = 0; k < rows; k++)
		for (size_t s = 0; s < symbols; s++)
			bias[s] += m->score[k * symbols + s];
	for (size_t s = 0; s < symbols; s++)
		for (size_t u = 0; u < units; u++)
			m->out_w_across[s * units + u] = out_w[u * symbols + s];
	product(rows, units, symbols, (struct matrix){ m->score, symbols, 1 }, m->out_w_across, m->dh);
}

/* ---- a batch ---- */

/* Sets those arguments of the network's call that forward and backward share. */
static void bind(const struct model *m, int carry, const struct model_batch *p, struct cg_rnn_call *call)
{
	size_t state = states(m, p->rows), positions = area(p->steps, p->rows);

	cg_rnn_call_init(call, sizeof *call);
	call->T = p->steps;
	call->B = p->rows;
	call->lengths = p->lengths;
	call->counter = (uint64_t)m->updates;
	call->params = host(m->p, m->at[MODEL_OUT_W]);
	call->reserve = m->reserve;
	call->input = host(m->x, positions * (size_t)m->shape.symbols);
	call->input_h = host(m->carry[carry].h, state);
	for (int k = 0; k < m->n_states; k++) {
		*(k ? &call->input_s[k - 1] : &call->input_c) = host(m->carry[carry].c + (size_t)k * state, state);
		*(k ? &call->output_s[k - 1] : &call->output_c) = host(m->last.c + (size_t)k * state, state);
	}
	call->output = host(m->h, positions * (size_t)m->shape.units);
	call->output_h = host(m->last.h, state);
}

static int forward(struct model *m, int carry, const struct model_batch *p)
{
	struct cg_rnn_call call;

	one_hot(m, p);
	bind(m, carry, p, &call);
	CG_TRY(cg_rnn_forward(m->stream, carry == MODEL_LEARNT ? m->learning : m->reading, &call));
	return cg_stream_sync(m->stream);
}

static int backward(struct model *m, const struct model_batch *p)
{
	struct cg_rnn_call call;

	bind(m, MODEL_LEARNT, p, &call);
	call.output_backprop = host(m->dh, area(p->steps * p->rows, m->shape.units));
	call.params_backprop = host(m->g, m->at[MODEL_OUT_W]);
	CG_TRY(cg_rnn_backward(m->stream, m->learning, &call));
	return cg_stream_sync(m->stream);
}

static void carry_states(struct model *m, int carry, const struct model_batch *p)
{
	size_t bytes = states(m, p->rows) * sizeof(real);

	memcpy(m->carry[carry].h, m->last.h, bytes);
	memcpy(m->carry[carry].c, m->last.c, bytes * (size_t)m->n_states);
}

/* Computes the loss of a batch. *n: the number of symbols in the batch, without the padding. Afterwards h holds *n rows of hidden
 * states, and `score` the gradients of *n rows of scores. */
static int loss_of(struct model *m, int carry, const struct model_batch *p, int *n, double *loss)
{
	int row = 0;

	CG_TRY(forward(m, carry, p));
	*n = gather(m, p);
	scores(m, *n);
	*loss = 0;
	for (int k = 0; k < p->steps * p->rows; k++)
		if (is_valid(p, k))
			*loss += softmax_loss(m->score + area(row++, m->shape.symbols), m->shape.symbols, p->next[k], (real)1 / *n) / *n;
	return CG_OK;
}

int model_compute_loss(struct model *m, int carry, const struct model_batch *p, double *loss)
{
	int n;

	CG_TRY(loss_of(m, carry, p, &n, loss));
	carry_states(m, carry, p);
	return CG_OK;
}

int model_compute_grad(struct model *m, const struct model_batch *p, double *loss)
{
	int n;

	CG_TRY(loss_of(m, MODEL_LEARNT, p, &n, loss));
	softmax_grad(m, n);
	scatter(m, p, n);
	CG_TRY(backward(m, p));
	carry_states(m, MODEL_LEARNT, p);
	return CG_OK;
}

/* Adam (Kingma and Ba 2015), after the gradient is scaled down to a norm of at most 1 (Pascanu, Mikolov and Bengio 2013). */
void model_learn(struct model *m, double rate)
{
	const real keep_mean = (real)0.9, keep_square = (real)0.99, tiny = (real)1e-8, longest = 1;
	double sum = 0, updates = (double)++m->updates;
	real scale, step, square_scale;

	for (size_t k = 0; k < m->n; k++)
		sum += (double)m->g[k] * m->g[k];
	scale = sum > longest ? longest / (real)sqrt(sum) : 1;
	step = (real)(rate / (1 - pow(keep_mean, updates)));
	square_scale = (real)(1 / (1 - pow(keep_square, updates)));
	for (size_t k = 0; k < m->n; k++) {
		real g = m->g[k] * scale;

		m->mean[k] += (1 - keep_mean) * (g - m->mean[k]);
		m->square[k] += (1 - keep_square) * (g * g - m->square[k]);
		m->p[k] -= step * m->mean[k] / ((real)sqrt(m->square[k] * square_scale) + tiny);
	}
}

/* ---- a sample ---- */

static int draw(const real *score, int n, double temperature, uint64_t *chance)
{
	double most = score[0], sum = 0, left;

	for (int k = 1; k < n; k++)
		most = score[k] > most ? score[k] : most;
	for (int k = 0; k < n; k++)
		sum += exp((score[k] - most) / temperature);
	left = sum * uniform(chance);
	for (int k = 0; k < n - 1; k++)
		if ((left -= exp((score[k] - most) / temperature)) < 0)
			return k;
	return n - 1;
}

int model_sample(struct model *m, uint64_t seed, double temperature, int first, int *symbols, int n)
{
	static const int32_t one = 1;
	int symbol = first;
	const struct model_batch letter = { 1, 1, &one, &symbol, NULL };

	model_reset(m, MODEL_SAMPLED);
	for (int k = 0; k < n; k++) {
		CG_TRY(forward(m, MODEL_SAMPLED, &letter));
		carry_states(m, MODEL_SAMPLED, &letter);
		scores(m, 1);
		symbol = symbols[k] = draw(m->score, m->shape.symbols, temperature, &seed);
	}
	return CG_OK;
}
