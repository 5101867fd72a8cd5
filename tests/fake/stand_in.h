/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the stand-ins' libraries, and what tests of them do first and last. */
#ifndef FAKE_STAND_IN_H
#define FAKE_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

/* What is done in a process of its own, and what is then to be said of it. */
struct trial {
	const char *name;
	void (*act)(void);
	const char *report;                      /* in the report; NULL: nothing is to be said */
	int signal;                              /* that ends it */
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

/* In a trial's process: says what was not so, and ends it. */
void expect(int is_so, const char *what, const char *file, int line);
#define EXPECT(what) expect((what) != 0, #what, __FILE__, __LINE__)
#define CHECK(call) EXPECT(!(call))

/* The context and the stream of a trial. */
extern void *context, *stream;
void load_libraries(void);
void begin(void);
void end(void);
/* The image, from malloc; NULL and *log when it does not compile. */
char *image_of(const char *text, int n, const char *const *options, char **log);
/* In a module that end() unloads. */
void *function_of(const char *text, const char *name);

/* b[k] = a[k] + by, of N floats; a is written, b is not. */
enum { N = 100, BYTES = N * sizeof(float) };
struct pair { uint64_t a, b; };
extern const char add_text[];
extern float host[N];
struct pair make_pair(void);
void free_pair(struct pair p);
int launch_add(void *f, int64_t n, struct pair p, float by);

/* Two tiles of 8 by 8 turned by way of shared memory, with these words in their places; and what the wait for it gives. */
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
