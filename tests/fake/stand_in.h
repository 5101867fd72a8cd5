/* SPDX-License-Identifier: Apache-2.0 */
/* Declares pointers to the functions of the stand-ins for CUDA's libraries, and the helpers of the stand-ins' tests. */
#ifndef FAKE_STAND_IN_H
#define FAKE_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

/* A trial: `act` runs in a process of its own, which must give the expected report. */
struct trial {
	const char *name;
	void (*act)(void);
	const char *report;                      /* words that the report must have; NULL: it must be empty */
	int signal;                              /* the signal that must end the process; 0: exit status 0 */
};
void run_trials(const struct trial *trials, size_t n);
#define RUN(trials) run_trials(trials, sizeof trials / sizeof *trials)

extern struct cu {
	int (*Init)(unsigned), (*DeviceGet)(int *, int);
	int (*DeviceGetAttribute)(int *, unsigned, int);
	int (*DevicePrimaryCtxRetain)(void **, int), (*DevicePrimaryCtxRelease_v2)(int);
	int (*CtxPushCurrent_v2)(void *), (*CtxPopCurrent_v2)(void **), (*CtxGetDevice)(int *);
	int (*StreamCreate)(void **, unsigned), (*StreamDestroy_v2)(void *), (*StreamSynchronize)(void *);
	int (*StreamIsCapturing)(void *, unsigned *), (*StreamBeginCapture_v2)(void *, unsigned), (*StreamEndCapture)(void *, void **);
	int (*GraphDestroy)(void *);
	int (*MemAlloc_v2)(uint64_t *, size_t), (*MemFree_v2)(uint64_t);
	int (*MemAllocAsync)(uint64_t *, size_t, void *), (*MemFreeAsync)(uint64_t, void *);
	int (*PointerGetAttribute)(void *, unsigned, uint64_t), (*MemGetAddressRange_v2)(uint64_t *, size_t *, uint64_t);
	int (*MemcpyHtoDAsync_v2)(uint64_t, const void *, size_t, void *), (*MemcpyDtoHAsync_v2)(void *, uint64_t, size_t, void *);
	int (*MemsetD8Async)(uint64_t, unsigned char, size_t, void *);
	int (*ModuleLoadData)(void **, const void *), (*ModuleUnload)(void *), (*ModuleGetFunction)(void **, void *, const char *);
	int (*FuncGetAttribute)(int *, unsigned, void *);
	int (*LaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
	int (*GetErrorName)(int, const char **);
} cu;
extern struct nvrtc {
	int (*Version)(int *, int *), (*GetNumSupportedArchs)(int *), (*GetSupportedArchs)(int *);
	int (*CreateProgram)(void **, const char *, const char *, int, const char *const *, const char *const *);
	int (*DestroyProgram)(void **), (*CompileProgram)(void *, int, const char *const *);
	int (*GetCUBINSize)(void *, size_t *), (*GetCUBIN)(void *, char *), (*GetPTXSize)(void *, size_t *), (*GetPTX)(void *, char *);
	int (*GetProgramLogSize)(void *, size_t *), (*GetProgramLog)(void *, char *);
} nvrtc;

/* Called in a trial's process: if is_so is 0, prints the failed condition and ends the process with status 2. */
void expect(int is_so, const char *what, const char *file, int line);
#define EXPECT(what) expect((what) != 0, #what, __FILE__, __LINE__)
#define CHECK(call) EXPECT(!(call))

/* The CUDA context and the stream of a trial, which begin() makes. */
extern void *context, *stream;
void load_libraries(void);
void begin(void);
void end(void);
/* Compiles a CUDA text to an image, from malloc; returns NULL if the text does not compile.  *log: the compiler's messages, from malloc. */
char *image_of(const char *text, int n, const char *const *options, char **log);
/* Compiles a text and returns its function `name`, in a module that end() unloads. */
void *function_of(const char *text, const char *name);

/* The kernel of add_text computes b[k] = a[k] + by for n floats; make_pair allocates a and b, of N floats each, and fills a alone. */
enum { N = 100, BYTES = N * sizeof(float) };
struct pair { uint64_t a, b; };
extern const char add_text[];
extern float host[N];
struct pair make_pair(void);
void free_pair(struct pair p);
int launch_add(void *f, int64_t n, struct pair p, float by);

/* A kernel that transposes two tiles of 8 by 8 by way of shared memory; the arguments are pieces of its text. turn_by runs the kernel, and
   expects that cuStreamSynchronize returns `expected` and, if `expected` is 0, that the tiles are transposed. */
#define TURN(place, between, after) \
	"extern \"C\" __global__ __launch_bounds__(64) void turn(const float *a, float *b)\n" \
	"{\n" \
	"	__shared__ float __align__(16) tile[64];\n" \
	"	int k = threadIdx.y * 8 + threadIdx.x;\n" \
	"\n" \
	"	for (int round = 0; round < 2; round++) {\n" \
	"		" place " = a[round * 64 + k];\n" \
	"		" between "\n" \
	"		b[round * 64 + k] = tile[threadIdx.x * 8 + threadIdx.y];\n" \
	"		" after "\n" \
	"	}\n" \
	"}\n"
void turn_by(const char *text, int expected);

void *load_library(const char *soname);
void find(void *library, const char *prefix, const char *name, void *to);

#endif
