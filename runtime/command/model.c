/*
 * A model of characters.  The cell and its gradient are the library's, a call for each step, on host memory, so that any
 * backend serves; the softmax, its loss and the optimiser are loops here, in one order, so that the same seed gives the
 * same bits.
 */
#include <math.h>
#include <string.h>

#include "runtime/command/model.h"
#include "runtime/runtime.h"

enum { LANES = 16, LINE = 64 };

/* ---- memory ---- */

static size_t area(int rows, int columns)
{
	return (size_t)rows * (size_t)columns;
}

static void measure(struct model *m)
{
	int symbols = m->shape.symbols, units = m->shape.units;
	const size_t sizes[MODEL_PARTS] = {
		[MODEL_W] = area(symbols + units, 4 * units), [MODEL_WCI] = (size_t)units, [MODEL_WCF] = (size_t)units,
		[MODEL_WCO] = (size_t)units, [MODEL_B] = area(4, units), [MODEL_OUT_W] = area(units, symbols),
		[MODEL_OUT_B] = (size_t)symbols
	};

	for (int k = 0; k < MODEL_PARTS; k++)
		m->at[k + 1] = m->at[k] + sizes[k];
	m->n = m->at[MODEL_PARTS];
}

static int measure_work(struct model *m)
{
	static const int passes[] = { CG_FORWARD, CG_GRAD };
	struct cg_lstm_block op;
	size_t bytes;

	cg_lstm_block_init(&op, sizeof op);
	op.B = m->shape.rows;
	op.I = m->shape.symbols;
	op.U = m->shape.units;
	op.dtype = MODEL_DTYPE;
	op.use_peephole = 1;
	for (int k = 0; k < 2; k++) {
		CG_TRY(cg_lstm_block_work(&op, passes[k], &bytes));
		if (bytes > m->work_bytes)
			m->work_bytes = bytes;
	}
	return CG_OK;
}

static int take_memory(struct model *m)
{
	size_t rows = (size_t)m->shape.rows, row = area(m->shape.rows, m->shape.units), steps = (size_t)m->shape.steps;
	size_t scores = steps * rows * (size_t)m->shape.symbols;
	const struct { real **at; size_t n; } pieces[] = {
		{ &m->p, m->n }, { &m->g, m->n }, { &m->mean, m->n }, { &m->square, m->n },
		{ &m->carry[MODEL_LEARNT].h, row }, { &m->carry[MODEL_LEARNT].cs, row },
		{ &m->carry[MODEL_OTHER].h, row }, { &m->carry[MODEL_OTHER].cs, row },
		{ &m->x, scores }, { &m->h, (steps + 1) * row }, { &m->cs, (steps + 1) * row },
		{ &m->i, steps * row }, { &m->f, steps * row }, { &m->ci, steps * row }, { &m->o, steps * row },
		{ &m->co, steps * row }, { &m->score, scores }, { &m->dh, steps * row },
		{ &m->dh_prev, row }, { &m->dcs[0], row }, { &m->dcs[1], row },
		{ &m->out_w_across, area(m->shape.symbols, m->shape.units) },
		{ &m->work, m->work_bytes / sizeof(real) },
	};
	enum { PIECES = sizeof pieces / sizeof *pieces };
	size_t total = 0, line = LINE / sizeof(real);
	real *free_from;

	for (int k = 0; k < PIECES; k++)
		total += (pieces[k].n + line - 1) / line * line;
	m->memory = cg_memory(NULL, total * sizeof(real) + LINE);
	if (!m->memory)
		return CG_NO_MEMORY;
	memset(m->memory, 0, total * sizeof(real) + LINE);
	free_from = (real *)(((uintptr_t)m->memory + LINE - 1) / LINE * LINE);
	for (int k = 0; k < PIECES; k++) {
		*pieces[k].at = free_from;
		free_from += (pieces[k].n + line - 1) / line * line;
	}
	return CG_OK;
}

/* ---- chance: splitmix64 (Steele, Lea and Flood 2014) ---- */

/* In [0, 1), from the upper 53 bits. */
static double uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

static void scatter(real *p, size_t n, double bound, uint64_t *seed)
{
	for (size_t k = 0; k < n; k++)
		p[k] = (real)(bound * (2 * uniform(seed) - 1));
}

/* Weights that are summed over the units are small, those of x are not: one of its rows is all that a step reads.  Biases
 * are zero; the cell's own forget_bias lets it remember from the start. */
static void begin(struct model *m, uint64_t seed)
{
	size_t of_x = 4 * area(m->shape.symbols, m->shape.units);
	double bound = 1 / sqrt(m->shape.units);

	scatter(m->p, of_x, 1, &seed);
	scatter(m->p + of_x, m->at[MODEL_B] - of_x, bound, &seed);
	scatter(m->p + m->at[MODEL_OUT_W], m->at[MODEL_OUT_B] - m->at[MODEL_OUT_W], bound, &seed);
}

int model_open(struct model *m, struct cg_context *context, struct model_shape shape, uint64_t seed)
{
	memset(m, 0, sizeof *m);
	m->shape = shape;
	measure(m);
	CG_TRY(measure_work(m));
	CG_TRY(take_memory(m));
	begin(m, seed);
	return cg_stream_open(context, NULL, &m->stream);
}

void model_close(struct model *m)
{
	cg_stream_close(m->stream);
	cg_memory(m->memory, 0);
	memset(m, 0, sizeof *m);
}

void model_rest(struct model *m, int carry)
{
	size_t bytes = area(m->shape.rows, m->shape.units) * sizeof(real);

	memset(m->carry[carry].h, 0, bytes);
	memset(m->carry[carry].cs, 0, bytes);
}

/* ---- the cell ---- */

static struct cg_mem host(const real *data, size_t n)
{
	return (struct cg_mem){ (void *)data, 0, n * sizeof(real), CG_HOST };
}

/* Step t of the piece over the first `rows` rows: what forward reads and writes, and grad reads. */
static void bind(const struct model *m, int t, int rows, struct cg_lstm_block *op)
{
	int units = m->shape.units;
	size_t row = area(rows, units), at = (size_t)t * area(m->shape.rows, units), after = at + area(m->shape.rows, units);

	cg_lstm_block_init(op, sizeof *op);
	op->B = rows;
	op->I = m->shape.symbols;
	op->U = units;
	op->dtype = MODEL_DTYPE;
	op->use_peephole = 1;
	op->cell_clip = 0;
	op->work = host(m->work, m->work_bytes / sizeof(real));
	op->x = host(m->x + (size_t)t * area(m->shape.rows, m->shape.symbols), area(rows, m->shape.symbols));
	op->h_prev = host(m->h + at, row);
	op->cs_prev = host(m->cs + at, row);
	op->w = host(m->p + m->at[MODEL_W], m->at[MODEL_WCI] - m->at[MODEL_W]);
	op->wci = host(m->p + m->at[MODEL_WCI], (size_t)units);
	op->wcf = host(m->p + m->at[MODEL_WCF], (size_t)units);
	op->wco = host(m->p + m->at[MODEL_WCO], (size_t)units);
	op->b = host(m->p + m->at[MODEL_B], area(4, units));
	op->i = host(m->i + at, row);
	op->f = host(m->f + at, row);
	op->ci = host(m->ci + at, row);
	op->o = host(m->o + at, row);
	op->co = host(m->co + at, row);
	op->cs = host(m->cs + after, row);
	op->h = host(m->h + after, row);
}

static void one_hot(const struct model *m, const int *symbols, int n)
{
	memset(m->x, 0, area(n, m->shape.symbols) * sizeof(real));
	for (int k = 0; k < n; k++)
		m->x[area(k, m->shape.symbols) + (size_t)symbols[k]] = 1;
}

/* Leaves h in the model; the carry is moved on. */
static int cells_forward(struct model *m, struct model_carry carry, const int *symbols)
{
	size_t row = area(m->shape.rows, m->shape.units), last = (size_t)m->shape.steps * row;
	struct cg_lstm_block op;

	one_hot(m, symbols, m->shape.steps * m->shape.rows);
	memcpy(m->h, carry.h, row * sizeof(real));
	memcpy(m->cs, carry.cs, row * sizeof(real));
	for (int t = 0; t < m->shape.steps; t++) {
		bind(m, t, m->shape.rows, &op);
		CG_TRY(cg_lstm_block_forward(m->stream, &op));
	}
	CG_TRY(cg_stream_sync(m->stream));
	memcpy(carry.h, m->h + last, row * sizeof(real));
	memcpy(carry.cs, m->cs + last, row * sizeof(real));
	return CG_OK;
}

/* From dh as the softmax left it; what a step hands to the one before is added there. */
static int cells_grad(struct model *m)
{
	int units = m->shape.units, steps = m->shape.steps;
	size_t row = area(m->shape.rows, units);
	struct cg_lstm_block op;

	for (int t = steps - 1; t >= 0; t--) {
		real *dh = m->dh + (size_t)t * row;

		bind(m, t, m->shape.rows, &op);
		op.accumulate = t < steps - 1;
		op.h_grad = host(dh, row);
		if (t < steps - 1)
			op.cs_grad = host(m->dcs[(t + 1) % 2], row);
		op.w_grad = host(m->g + m->at[MODEL_W], op.w.bytes / sizeof(real));
		op.wci_grad = host(m->g + m->at[MODEL_WCI], (size_t)units);
		op.wcf_grad = host(m->g + m->at[MODEL_WCF], (size_t)units);
		op.wco_grad = host(m->g + m->at[MODEL_WCO], (size_t)units);
		op.b_grad = host(m->g + m->at[MODEL_B], area(4, units));
		if (t > 0) {
			op.cs_prev_grad = host(m->dcs[t % 2], row);
			op.h_prev_grad = host(m->dh_prev, row);
		}
		CG_TRY(cg_lstm_block_grad(m->stream, &op));
		CG_TRY(cg_stream_sync(m->stream));
		for (size_t k = 0; k < row && t > 0; k++)
			(dh - row)[k] += m->dh_prev[k];
	}
	return CG_OK;
}

/* ---- the softmax ---- */

/* [m k], element (i, j) at i * row + j * column. */
struct matrix { const real *at; size_t row, column; };

/* c [m n] = a b, with b [k n]; each sum in the order of k. */
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

/* The scores of h [rows U], one row each. */
static void scores(const struct model *m, const real *h, int rows)
{
	size_t symbols = (size_t)m->shape.symbols, units = (size_t)m->shape.units;
	const real *bias = m->p + m->at[MODEL_OUT_B];

	product((size_t)rows, symbols, units, (struct matrix){ h, units, 1 }, m->p + m->at[MODEL_OUT_W], m->score);
	for (int k = 0; k < rows; k++)
		for (size_t s = 0; s < symbols; s++)
			m->score[(size_t)k * symbols + s] += bias[s];
}

/* The loss of one row of scores in nats; the scores become its gradient times `share`. */
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

static void softmax_grad(struct model *m)
{
	size_t symbols = (size_t)m->shape.symbols, units = (size_t)m->shape.units;
	size_t rows = area(m->shape.rows, m->shape.steps);
	const real *h = m->h + area(m->shape.rows, m->shape.units), *out_w = m->p + m->at[MODEL_OUT_W];
	real *bias = m->g + m->at[MODEL_OUT_B];

	product(units, symbols, rows, (struct matrix){ h, 1, units }, m->score, m->g + m->at[MODEL_OUT_W]);
	memset(bias, 0, symbols * sizeof(real));
	for (size_t k = 0; k < rows; k++)
		for (size_t s = 0; s < symbols; s++)
			bias[s] += m->score[k * symbols + s];
	for (size_t s = 0; s < symbols; s++)
		for (size_t u = 0; u < units; u++)
			m->out_w_across[s * units + u] = out_w[u * symbols + s];
	product(rows, units, symbols, (struct matrix){ m->score, symbols, 1 }, m->out_w_across, m->dh);
}

/* ---- a piece ---- */

int model_loss(struct model *m, int carry, const int *symbols, const int *next, double *loss)
{
	int n = m->shape.steps * m->shape.rows;

	CG_TRY(cells_forward(m, m->carry[carry], symbols));
	scores(m, m->h + area(m->shape.rows, m->shape.units), n);
	*loss = 0;
	for (int k = 0; k < n; k++)
		*loss += softmax_loss(m->score + area(k, m->shape.symbols), m->shape.symbols, next[k], (real)1 / n) / n;
	return CG_OK;
}

int model_grad(struct model *m, int carry, const int *symbols, const int *next, double *loss)
{
	CG_TRY(model_loss(m, carry, symbols, next, loss));
	softmax_grad(m);
	return cells_grad(m);
}

/* Adam (Kingma and Ba 2015), after the gradient is cut to a norm (Pascanu, Mikolov and Bengio 2013). */
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

/* Steps of one row, in the place of a piece's first: nothing that is carried is touched. */
int model_sample(struct model *m, uint64_t seed, double temperature, int first, int *symbols, int n)
{
	size_t units = (size_t)m->shape.units, after = area(m->shape.rows, m->shape.units);
	struct cg_lstm_block op;

	memset(m->h, 0, units * sizeof(real));
	memset(m->cs, 0, units * sizeof(real));
	bind(m, 0, 1, &op);
	for (int k = 0; k < n; k++) {
		one_hot(m, k ? &symbols[k - 1] : &first, 1);
		CG_TRY(cg_lstm_block_forward(m->stream, &op));
		CG_TRY(cg_stream_sync(m->stream));
		memcpy(m->h, m->h + after, units * sizeof(real));
		memcpy(m->cs, m->cs + after, units * sizeof(real));
		scores(m, m->h, 1);
		symbols[k] = draw(m->score, m->shape.symbols, temperature, &seed);
	}
	return CG_OK;
}
