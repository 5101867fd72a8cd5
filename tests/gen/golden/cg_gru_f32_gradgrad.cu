/* cg_gru_f32_gradgrad: cellgrad emit gru --pass gradgrad --dtype f32 --lang cuda */

typedef float real;			/* the type in memory */
typedef float acc;			/* the type of arithmetic */
typedef unsigned int word;		/* an unsigned integer with the bits of an acc */

/* Consecutive units of a row for one thread: 16 bytes of reals, or fewer, or one unit. */
template <class element, int n>
struct __align__(n * sizeof(element) < 16 ? n * sizeof(element) : 16) run {
	element of[n];
};

/* Is the run whole, and aligned for accesses of 16 bytes, or of the run's size if that is smaller?  A run of one
   unit is always whole and aligned. */
template <class element, int n>
static __device__ __forceinline__ bool whole_run(const element *at, int count)
{
	const unsigned long long bytes = n * sizeof(element) < 16 ? n * sizeof(element) : 16;

	return n == 1 || (count == n && (unsigned long long)at % bytes == 0);
}

/* Loads the first `count` units of an input, which may be absent; the others are zeros. */
template <int n, class element>
static __device__ __forceinline__ run<element, n> load_run(const element *at, long long first, int count)
{
	run<element, n> loaded = {};

	if (at && whole_run<element, n>(at + first, count))
		return *(const run<element, n> *)(at + first);
	for (int unit = 0; at && unit < n; unit++)
		if (unit < count)
			loaded.of[unit] = at[first + unit];
	return loaded;
}

template <int n, class element>
static __device__ __forceinline__ void store_run(element *at, long long first, int count, const run<element, n> &from)
{
	if (at && whole_run<element, n>(at + first, count))
		*(run<element, n> *)(at + first) = from;
	else
		for (int unit = 0; at && unit < n; unit++)
			if (unit < count)
				at[first + unit] = from.of[unit];
}

/* Computes runs of RUN units, in a loop where the grid has fewer threads than there are runs.  Always inline, so
 * that the qualifiers of the kernel's arguments hold in this function. */
template <int RUN>
static __device__ __forceinline__ void cg_gru_f32_gradgrad_walk(
	long long rows, long long units,
	const acc *gda_r_at, long long gda_r_stride,
	const acc *gda_z_at, long long gda_z_stride,
	const acc *gda_n_at, long long gda_n_stride,
	const acc *gdq_n_at, long long gdq_n_stride,
	const real *h_prev_at, long long h_prev_stride,
	const real *gdh_prev_at, long long gdh_prev_stride,
	const real *dh_at, long long dh_stride,
	const real *r_at, long long r_stride,
	const real *z_at, long long z_stride,
	const real *n_at, long long n_stride,
	const real *q_at, long long q_stride,
	real *gdh_at, long long gdh_stride,
	real *ga_r_at, long long ga_r_stride,
	real *ga_z_at, long long ga_z_stride,
	real *ga_n_at, long long ga_n_stride,
	real *gq_n_at, long long gq_n_stride,
	acc *gh_prev_at, long long gh_prev_stride)
{
	const long long unit_at = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * RUN;
	const long long unit_stride = gridDim.x * (long long)blockDim.x * RUN;
	const long long row_stride = gridDim.y * (long long)blockDim.y;

	for (long long row = blockIdx.y * (long long)blockDim.y + threadIdx.y; row < rows; row += row_stride) {
		for (long long first = unit_at; first < units; first += unit_stride) {
			const int count = units - first < RUN ? (int)(units - first) : RUN;
			const run<acc, RUN> gda_r_run = load_run<RUN>(gda_r_at, row * gda_r_stride + first, count);
			const run<acc, RUN> gda_z_run = load_run<RUN>(gda_z_at, row * gda_z_stride + first, count);
			const run<acc, RUN> gda_n_run = load_run<RUN>(gda_n_at, row * gda_n_stride + first, count);
			const run<acc, RUN> gdq_n_run = load_run<RUN>(gdq_n_at, row * gdq_n_stride + first, count);
			const run<real, RUN> h_prev_run = load_run<RUN>(h_prev_at, row * h_prev_stride + first, count);
			const run<real, RUN> gdh_prev_run = load_run<RUN>(gdh_prev_at, row * gdh_prev_stride + first, count);
			const run<real, RUN> dh_run = load_run<RUN>(dh_at, row * dh_stride + first, count);
			const run<real, RUN> r_run = load_run<RUN>(r_at, row * r_stride + first, count);
			const run<real, RUN> z_run = load_run<RUN>(z_at, row * z_stride + first, count);
			const run<real, RUN> n_run = load_run<RUN>(n_at, row * n_stride + first, count);
			const run<real, RUN> q_run = load_run<RUN>(q_at, row * q_stride + first, count);
			run<real, RUN> gdh_run;
			run<real, RUN> ga_r_run;
			run<real, RUN> ga_z_run;
			run<real, RUN> ga_n_run;
			run<real, RUN> gq_n_run;
			run<acc, RUN> gh_prev_run;

			#pragma unroll
			for (int unit = 0; unit < RUN; unit++) {
				const acc gda_r = gda_r_run.of[unit];
				const acc gda_z = gda_z_run.of[unit];
				const acc gda_n = gda_n_run.of[unit];
				const acc gdq_n = gdq_n_run.of[unit];
				const acc h_prev = h_prev_run.of[unit];
				const acc gdh_prev = gdh_prev_run.of[unit];
				const acc dh = dh_run.of[unit];
				const acc r = r_run.of[unit];
				const acc z = z_run.of[unit];
				const acc n = n_run.of[unit];
				const acc q = q_run.of[unit];

				/* h = (1 - z) * n + z * h_prev */
				const acc t1 = 1 - z;
				const acc dn = dh * t1;
				const acc t2 = h_prev - n;
				const acc dz = dh * t2;

				/* n = tanh(a_n + r * q) */
				const acc t3 = 1 - n * n;
				const acc da_n = dn * t3;
				const acc dr = da_n * q;

				/* z = sigmoid(a_z) */
				const acc t4 = z * t1;

				/* r = sigmoid(a_r) */
				const acc t5 = 1 - r;
				const acc t6 = r * t5;
				const acc gdr = gda_r * t6;

				/* z = sigmoid(a_z) */
				const acc gdz = gda_z * t4;
				const acc t7 = gda_z * dz;

				/* n = tanh(a_n + r * q) */
				const acc gda_n_all = gda_n + gdq_n * r + gdr * q;
				const acc gdn = gda_n_all * t3;

				/* h = (1 - z) * n + z * h_prev */
				const acc gh_prev = gdz * dh;
				const acc gn = gda_n_all * dn * n * (-2) - gh_prev;
				const acc gdh = gdz * t2 + gdn * t1 + gdh_prev * z;
				const acc gz = t7 * t1 + gdh_prev * dh - (t7 * z + gdn * dh);

				/* n = tanh(a_n + r * q) */
				const acc ga_n = gn * t3;
				const acc gr = gda_r * dr * (t5 - r) + gdq_n * da_n + ga_n * q;
				const acc gq_n = gdr * da_n + ga_n * r;

				/* z = sigmoid(a_z) */
				const acc ga_z = gz * t4;

				/* r = sigmoid(a_r) */
				const acc ga_r = gr * t6;

				gdh_run.of[unit] = gdh;
				ga_r_run.of[unit] = ga_r;
				ga_z_run.of[unit] = ga_z;
				ga_n_run.of[unit] = ga_n;
				gq_n_run.of[unit] = gq_n;
				gh_prev_run.of[unit] = gh_prev;
			}

			store_run(gdh_at, row * gdh_stride + first, count, gdh_run);
			store_run(ga_r_at, row * ga_r_stride + first, count, ga_r_run);
			store_run(ga_z_at, row * ga_z_stride + first, count, ga_z_run);
			store_run(ga_n_at, row * ga_n_stride + first, count, ga_n_run);
			store_run(gq_n_at, row * gq_n_stride + first, count, gq_n_run);
			store_run(gh_prev_at, row * gh_prev_stride + first, count, gh_prev_run);
		}
	}
}

/*
 * cg_gru_f32_gradgrad: the gradient's gradient of cell gru.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	gda_r        in  acc     [rows, units]   adjoint of da_r
 *	gda_z        in  acc     [rows, units]   adjoint of da_z
 *	gda_n        in  acc     [rows, units]   adjoint of da_n
 *	gdq_n        in  acc     [rows, units]   adjoint of dq_n
 *	h_prev       in  real    [rows, units]   output before the step
 *	gdh_prev     in  real    [rows, units]   adjoint of dh_prev
 *	dh           in  real    [rows, units]   adjoint of h
 *	r            in  real    [rows, units]   value that forward saves
 *	z            in  real    [rows, units]   value that forward saves
 *	n            in  real    [rows, units]   value that forward saves
 *	q            in  real    [rows, units]   value that forward saves
 *	gdh          out real    [rows, units]   adjoint of dh
 *	ga_r         out real    [rows, units]   adjoint of a_r
 *	ga_z         out real    [rows, units]   adjoint of a_z
 *	ga_n         out real    [rows, units]   adjoint of a_n
 *	gq_n         out real    [rows, units]   adjoint of q_n
 *	gh_prev      out acc     [rows, units]   adjoint of h_prev, without the part of the recurrent products
 */
extern "C" __global__ void cg_gru_f32_gradgrad(
	long long rows, long long units,
	const acc *__restrict__ gda_r_at, long long gda_r_stride,
	const acc *__restrict__ gda_z_at, long long gda_z_stride,
	const acc *__restrict__ gda_n_at, long long gda_n_stride,
	const acc *__restrict__ gdq_n_at, long long gdq_n_stride,
	const real *__restrict__ h_prev_at, long long h_prev_stride,
	const real *__restrict__ gdh_prev_at, long long gdh_prev_stride,
	const real *__restrict__ dh_at, long long dh_stride,
	const real *__restrict__ r_at, long long r_stride,
	const real *__restrict__ z_at, long long z_stride,
	const real *__restrict__ n_at, long long n_stride,
	const real *__restrict__ q_at, long long q_stride,
	real *__restrict__ gdh_at, long long gdh_stride,
	real *__restrict__ ga_r_at, long long ga_r_stride,
	real *__restrict__ ga_z_at, long long ga_z_stride,
	real *__restrict__ ga_n_at, long long ga_n_stride,
	real *__restrict__ gq_n_at, long long gq_n_stride,
	acc *__restrict__ gh_prev_at, long long gh_prev_stride)
{
	cg_gru_f32_gradgrad_walk<4>(
		rows, units,
		gda_r_at, gda_r_stride,
		gda_z_at, gda_z_stride,
		gda_n_at, gda_n_stride,
		gdq_n_at, gdq_n_stride,
		h_prev_at, h_prev_stride,
		gdh_prev_at, gdh_prev_stride,
		dh_at, dh_stride,
		r_at, r_stride,
		z_at, z_stride,
		n_at, n_stride,
		q_at, q_stride,
		gdh_at, gdh_stride,
		ga_r_at, ga_r_stride,
		ga_z_at, ga_z_stride,
		ga_n_at, ga_n_stride,
		gq_n_at, gq_n_stride,
		gh_prev_at, gh_prev_stride);
}

/*
 * cg_gru_f32_gradgrad_one: the same kernel, one unit a thread, with the same arguments and bits,
 * where rows * ceil(units / 4) < 256 * multiprocessors.
 */
extern "C" __global__ void cg_gru_f32_gradgrad_one(
	long long rows, long long units,
	const acc *__restrict__ gda_r_at, long long gda_r_stride,
	const acc *__restrict__ gda_z_at, long long gda_z_stride,
	const acc *__restrict__ gda_n_at, long long gda_n_stride,
	const acc *__restrict__ gdq_n_at, long long gdq_n_stride,
	const real *__restrict__ h_prev_at, long long h_prev_stride,
	const real *__restrict__ gdh_prev_at, long long gdh_prev_stride,
	const real *__restrict__ dh_at, long long dh_stride,
	const real *__restrict__ r_at, long long r_stride,
	const real *__restrict__ z_at, long long z_stride,
	const real *__restrict__ n_at, long long n_stride,
	const real *__restrict__ q_at, long long q_stride,
	real *__restrict__ gdh_at, long long gdh_stride,
	real *__restrict__ ga_r_at, long long ga_r_stride,
	real *__restrict__ ga_z_at, long long ga_z_stride,
	real *__restrict__ ga_n_at, long long ga_n_stride,
	real *__restrict__ gq_n_at, long long gq_n_stride,
	acc *__restrict__ gh_prev_at, long long gh_prev_stride)
{
	cg_gru_f32_gradgrad_walk<1>(
		rows, units,
		gda_r_at, gda_r_stride,
		gda_z_at, gda_z_stride,
		gda_n_at, gda_n_stride,
		gdq_n_at, gdq_n_stride,
		h_prev_at, h_prev_stride,
		gdh_prev_at, gdh_prev_stride,
		dh_at, dh_stride,
		r_at, r_stride,
		z_at, z_stride,
		n_at, n_stride,
		q_at, q_stride,
		gdh_at, gdh_stride,
		ga_r_at, ga_r_stride,
		ga_z_at, ga_z_stride,
		ga_n_at, ga_n_stride,
		gq_n_at, gq_n_stride,
		gh_prev_at, gh_prev_stride);
}

/*
 * cg_gru_f32_gradgrad_sum_part: partial sums over blocks of 64 rows, for later functions.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	ga_r         in  real    [rows, units]   adjoint of a_r
 *	ga_z         in  real    [rows, units]   adjoint of a_z
 *	ga_n         in  real    [rows, units]   adjoint of a_n
 *	gq_n         in  real    [rows, units]   adjoint of q_n
 *	partial      out acc     [blocks, values, units] partial sums of blocks of rows
 */
extern "C" __global__ void cg_gru_f32_gradgrad_sum_part(
	long long rows, long long units,
	const real *__restrict__ ga_r_at, long long ga_r_stride,
	const real *__restrict__ ga_z_at, long long ga_z_stride,
	const real *__restrict__ ga_n_at, long long ga_n_stride,
	const real *__restrict__ gq_n_at, long long gq_n_stride,
	acc *__restrict__ partial_at)
{
	enum { BLOCK = 64, VALUES = 4 };
	const long long unit = blockIdx.x * (long long)blockDim.x + threadIdx.x;
	const long long step = gridDim.y * (long long)blockDim.y;

	if (unit >= units)
		return;
	for (long long block = blockIdx.y * (long long)blockDim.y + threadIdx.y; block * BLOCK < rows; block += step) {
		const long long last = rows - block * BLOCK < BLOCK ? rows : (block + 1) * BLOCK;
		acc sum_gb_r = 0;
		acc sum_gb_z = 0;
		acc sum_gb_n = 0;
		acc sum_gb_q_n = 0;

		for (long long row = block * BLOCK; row < last; row++) {
			const acc ga_r = ga_r_at ? ga_r_at[row * ga_r_stride + unit] : 0;
			const acc ga_z = ga_z_at ? ga_z_at[row * ga_z_stride + unit] : 0;
			const acc ga_n = ga_n_at ? ga_n_at[row * ga_n_stride + unit] : 0;
			const acc gq_n = gq_n_at ? gq_n_at[row * gq_n_stride + unit] : 0;

			sum_gb_r += ga_r;
			sum_gb_z += ga_z;
			sum_gb_n += ga_n;
			sum_gb_q_n += gq_n;
		}
		partial_at[(block * VALUES + 0) * units + unit] = sum_gb_r;
		partial_at[(block * VALUES + 1) * units + unit] = sum_gb_z;
		partial_at[(block * VALUES + 2) * units + unit] = sum_gb_n;
		partial_at[(block * VALUES + 3) * units + unit] = sum_gb_q_n;
	}
}

/*
 * cg_gru_f32_gradgrad_sum: the sums of partial sums over all blocks of rows.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	partial      in  acc     [blocks, values, units] partial sums of blocks of rows
 *	gb_r         out real    [units]         adjoint of b_r
 *	gb_z         out real    [units]         adjoint of b_z
 *	gb_n         out real    [units]         adjoint of b_n
 *	gb_q_n       out real    [units]         adjoint of b_q_n
 *	accumulate   in  int64_t                 1: add to the sums in memory; 0: overwrite them
 *
 * NAME_second: elements from NAME to a second place, which gets the same sum; 0: none.
 */
extern "C" __global__ void cg_gru_f32_gradgrad_sum(
	long long rows, long long units,
	const acc *__restrict__ partial_at,
	real *__restrict__ gb_r_at, long long gb_r_second,
	real *__restrict__ gb_z_at, long long gb_z_second,
	real *__restrict__ gb_n_at, long long gb_n_second,
	real *__restrict__ gb_q_n_at, long long gb_q_n_second,
	long long accumulate)
{
	enum { BLOCK = 64, VALUES = 4, LOADS = 8 };
	const long long blocks = (rows + BLOCK - 1) / BLOCK;
	const long long unit = blockIdx.x * (long long)blockDim.x + threadIdx.x;
	const long long step = gridDim.y * (long long)blockDim.y;

	if (unit >= units)
		return;
	for (long long value = blockIdx.y * (long long)blockDim.y + threadIdx.y; value < VALUES; value += step) {
		const acc *const at = partial_at + value * units + unit;
		real *total = 0;
		long long second = 0, block = 0;
		acc sum = 0;

		if (value == 0) {
			total = gb_r_at;
			second = gb_r_second;
		}
		if (value == 1) {
			total = gb_z_at;
			second = gb_z_second;
		}
		if (value == 2) {
			total = gb_n_at;
			second = gb_n_second;
		}
		if (value == 3) {
			total = gb_q_n_at;
			second = gb_q_n_second;
		}
		if (!total)
			continue;
		/* The loads do not wait for each other; the additions are in order. */
		for (; block + LOADS <= blocks; block += LOADS) {
			acc loaded[LOADS];

			#pragma unroll
			for (int k = 0; k < LOADS; k++)
				loaded[k] = at[(block + k) * VALUES * units];
			#pragma unroll
			for (int k = 0; k < LOADS; k++)
				sum += loaded[k];
		}
		for (; block < blocks; block++)
			sum += at[block * VALUES * units];
		total += unit;
		if (second)
			total[second] = accumulate ? total[second] + sum : sum;
		*total = accumulate ? *total + sum : sum;
	}
}
