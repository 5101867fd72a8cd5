/* The calls of the stand-ins' libraries, and the beginning and end that trials of them have in common. */
#ifndef FAKE_STAND_IN_H
#define FAKE_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

extern struct cu {
	int (*Init)(unsigned), (*DeviceGet)(int *, int);
	int (*DeviceGetAttribute)(int *, unsigned, int);
	int (*DevicePrimaryCtxRetain)(void **, int), (*DevicePrimaryCtxRelease_v2)(int);
	int (*CtxPushCurrent_v2)(void *), (*CtxPopCurrent_v2)(void **), (*CtxGetDevice)(int *);
	int (*StreamCreate)(void **, unsigned), (*StreamDestroy_v2)(void *), (*StreamSynchronize)(void *);
	int (*StreamIsCapturing)(void *, unsigned *);
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
void *load_library(const char *soname);
void find(void *library, const char *prefix, const char *name, void *to);

#endif
