/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains on several processes by MPI.  All ranks have the same weights, and each has a share of the batch.  A training step is the forward
 * and backward pass of the share, one MPI_Allreduce over params_backprop, and the same update on every rank, so that the weights stay equal
 * to the bit.
 *
 *	mpirun -n 2 ./parallel [-B ROWS] [-T STEPS] [-U UNITS] [-L LAYERS] [-n REPEATS] [-o FILE]
 *
 * The program prints the loss of each training step, rank 0's least time for the passes of its share, its least time for the sum of the
 * gradients, and whether the weights are equal on all ranks.  With -o the program writes the weights, the batch and the gradient of the
 * first training step to FILE as floats, so that another program can check them.
 */
#include <cellgrad.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const float target = 0.5f;               /* the target of every output; the loss is half the sum of squared differences */

struct training {
	long    T, B, I, U, L, repeats;
	const char *path;                        /* FILE, or NULL */
	int     rank, ranks;
	long    first, rows;                     /* this rank's share: its first row in the batch, and its number of rows */
	float  *weights, *gradient, *batch;      /* [n] [n] [T B I] */
	size_t  n;
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn *network;
	struct cg_rnn_call call;                 /* the network's call on this rank's share */
};

/* Ends the program on all ranks, since the other ranks would wait for a rank that ended alone. */
static void die(const char *what, const char *why)
{
	fprintf(stderr, "parallel: %s: %s\n", what, why);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void check(int status)
{
	if (status)
		die("cellgrad", cg_message());
}

static void *allocate(size_t bytes)
{
	void *memory = calloc(1, bytes + 1);

	if (!memory)
		die("memory", "there is not enough");
	return memory;
}

static void read_options(struct training *t, int argc, char **argv)
{
	for (int option; (option = getopt(argc, argv, "B:T:U:L:n:o:")) != -1;) {
		long *number = option == 'B' ? &t->B : option == 'T' ? &t->T : option == 'U' ? &t->U : option == 'L' ? &t->L : &t->repeats;
		char *end = "";

		if (option == 'o')
			t->path = optarg;
		else if (option == '?' || (*number = strtol(optarg, &end, 10)) < 1 || *number > 1 << 20 || *end)
			die("options", "expected -B, -T, -U, -L or -n with a number from 1 to 2^20, or -o FILE");
	}
}

/* Fills an array with numbers from -scale to scale, the same on every rank. */
static void fill(float *to, size_t n, float scale, unsigned seed)
{
	for (size_t k = 0; k < n; k++) {
		seed = seed * 1664525u + 1013904223u;
		to[k] = scale * ((float)(seed >> 8) / (1 << 23) - 1);
	}
}

/* Prepares the call on this rank's share of the batch, without copying the share: its rows of one time step are contiguous, and those of
 * the next time step are B rows further. */
static void prepare(struct training *t)
{
	const size_t outputs = (size_t)(t->T * t->rows * t->U) * sizeof(float);
	struct cg_rnn_config network;
	struct cg_rnn_sizes sizes;

	cg_rnn_config_init(&network, sizeof network);
	network.input = t->I;
	network.units = t->U;
	network.layers = (int)t->L;
	check(cg_open(NULL, &t->context));
	check(cg_stream_open(t->context, NULL, &t->stream));
	check(cg_rnn_open(t->context, &network, &t->network));

	cg_rnn_call_init(&t->call, sizeof t->call);
	t->call.T = t->T;
	t->call.B = t->rows;
	t->call.input_t_stride = t->B * t->I;
	t->call.input_b_stride = t->I;
	check(cg_rnn_call_sizes(t->network, &t->call, &sizes));
	t->n = sizes.params / sizeof(float);
	if (t->n > INT_MAX)
		die("weights", "expected at most 2^31 - 1 weights, for one call of MPI");
	t->weights = allocate(sizes.params);
	t->gradient = allocate(sizes.params);
	t->batch = allocate((size_t)(t->T * t->B * t->I) * sizeof(float));
	fill(t->batch, (size_t)(t->T * t->B * t->I), 1, 1);

	t->call.params = cg_host(t->weights, sizes.params);
	t->call.params_backprop = cg_host(t->gradient, sizes.params);
	t->call.input = cg_host(t->batch + t->first * t->I, (size_t)((t->T - 1) * t->B + t->rows) * (size_t)t->I * sizeof(float));
	t->call.reserve = cg_host(allocate(sizes.reserve), sizes.reserve);
	t->call.output = cg_host(allocate(outputs), outputs);
	t->call.output_backprop = cg_host(allocate(outputs), outputs);
	check(cg_rnn_init_params(t->network, "uniform uniform uniform", 1, t->call.params));
}

/* Computes the loss of the share, and the share's part of the gradient. */
static double run_share(struct training *t)
{
	const size_t n = t->call.output.bytes / sizeof(float);
	const float *output = t->call.output.data;
	float *missing = t->call.output_backprop.data;
	double loss = 0;

	check(cg_rnn_forward(t->stream, t->network, &t->call));
	for (size_t k = 0; k < n; k++) {
		missing[k] = output[k] - target;
		loss += 0.5 * missing[k] * missing[k];
	}
	check(cg_rnn_backward(t->stream, t->network, &t->call));
	return loss;
}

static void write_first_step(const struct training *t)
{
	const size_t n = (size_t)(t->T * t->B * t->I);
	FILE *file = fopen(t->path, "wb");

	if (!file || fwrite(t->weights, sizeof(float), t->n, file) != t->n || fwrite(t->batch, sizeof(float), n, file) != n ||
	    fwrite(t->gradient, sizeof(float), t->n, file) != t->n || fclose(file))
		die(t->path, "cannot be written");
}

/* Runs all training steps.  The order of MPI's additions is unspecified, but all ranks get the same sum. */
static void train(struct training *t)
{
	double least_share = 0, least_sum = 0;

	for (long step = 0; step < t->repeats; step++) {
		double begin = MPI_Wtime(), loss = run_share(t), share = MPI_Wtime() - begin, sum;

		MPI_Barrier(MPI_COMM_WORLD);             /* so that the sum's time does not contain the wait for a slower rank */
		begin = MPI_Wtime();
		MPI_Allreduce(MPI_IN_PLACE, t->gradient, (int)t->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		sum = MPI_Wtime() - begin;
		MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		if (!step && !t->rank && t->path)
			write_first_step(t);
		for (size_t k = 0; k < t->n; k++)
			t->weights[k] -= 0.5f / (float)(t->T * t->B) * t->gradient[k];
		least_share = step && least_share < share ? least_share : share;
		least_sum = step && least_sum < sum ? least_sum : sum;
		if (!t->rank)
			printf("step %ld loss %.6f\n", step, loss);
	}
	if (!t->rank)
		printf("a share %.2f ms, the sum of %zu numbers %.2f ms; %s\n", 1e3 * least_share, t->n, 1e3 * least_sum,
		       cg_describe(t->context));
}

/* Do all ranks have the weights of rank 0, to the bit? */
static int compare_weights(const struct training *t)
{
	const size_t bytes = t->n * sizeof(float);
	float *first = allocate(bytes);
	int is_equal;

	memcpy(first, t->weights, bytes);
	MPI_Bcast(first, (int)t->n, MPI_FLOAT, 0, MPI_COMM_WORLD);
	is_equal = !memcmp(first, t->weights, bytes);
	free(first);
	MPI_Allreduce(MPI_IN_PLACE, &is_equal, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	return is_equal;
}

static void finish(struct training *t)
{
	free(t->weights);
	free(t->gradient);
	free(t->batch);
	free(t->call.reserve.data);
	free(t->call.output.data);
	free(t->call.output_backprop.data);
	cg_rnn_close(t->network);
	cg_stream_close(t->stream);
	cg_close(t->context);
}

int main(int argc, char **argv)
{
	struct training t = { .T = 20, .B = 16, .I = 8, .U = 32, .L = 2, .repeats = 10 };
	int is_equal;

	MPI_Init(&argc, &argv);                         /* before a context is opened, since MPI_Init may fork */
	MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &t.ranks);
	read_options(&t, argc, argv);
	t.first = t.B * t.rank / t.ranks;
	t.rows = t.B * (t.rank + 1) / t.ranks - t.first;
	prepare(&t);
	train(&t);
	is_equal = compare_weights(&t);
	if (!t.rank)
		printf("%d ranks: weights equal to the bit: %s\n", t.ranks, is_equal ? "yes" : "no");
	finish(&t);
	MPI_Finalize();
	return !is_equal;
}
