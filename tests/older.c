/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes PoCL compute as on an older x86-64 processor than there is: PoCL asks LLVM which instructions the processor has, and the functions
 * of this file, which replace LLVM's, say that some are missing.  So PoCL gives its device narrower vectors, and compiles for the older
 * processor.  The library older.so of this file is put before a program:
 *
 *	OLDER_PROCESSOR=haswell LD_PRELOAD=.../older.so PROGRAM     haswell: without AVX-512; nehalem: without AVX, FMA and F16C, too
 *
 * older.so does nothing where PoCL has LLVM within itself; cpu.sh looks whether the device has changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The layouts of LLVM's llvm::StringMap<bool> and llvm::StringRef; a feature's name follows its entry. */
struct feature { size_t length; bool there; };
struct features { struct feature **table; unsigned buckets, items, removed, entry_bytes; };
struct words { const char *at; size_t length; };

static const struct { const char *processor, *lacks[6]; } older[] = {
	{ "haswell", { "avx512" } },
	{ "nehalem", { "avx", "fma", "f16c", "bmi", "xop" } },
};

/* Prefixes of the names of the features that the chosen processor lacks; NULL: OLDER_PROCESSOR chooses none. */
static const char *const *lacking(void)
{
	const char *name = getenv("OLDER_PROCESSOR");

	for (size_t k = 0; name && k < sizeof older / sizeof *older; k++)
		if (!strcmp(name, older[k].processor))
			return older[k].lacks;
	return NULL;
}

static int find_llvm(struct dl_phdr_info *object, size_t bytes, void *handle)
{
	(void)bytes;
	if (strstr(object->dlpi_name, "libLLVM"))
		*(void **)handle = dlopen(object->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	return *(void **)handle != NULL;
}

/* Sets a pointer to LLVM's own function of the name; to NULL where its library is not loaded. */
static void find_own(const char *name, void *call)
{
	void *handle = NULL;

	dl_iterate_phdr(find_llvm, &handle);
	*(void **)call = handle ? dlsym(handle, name) : NULL;
}

static void withhold(struct features *features)
{
	const char *const *lacks = lacking();

	for (unsigned k = 0; lacks && !features->removed && k < features->buckets; k++) {
		struct feature *f = features->table[k];

		for (int j = 0; f && lacks[j]; j++)
			if (!strncmp((char *)f + features->entry_bytes, lacks[j], strlen(lacks[j])))
				f->there = false;
	}
}

/* llvm::sys::getHostCPUFeatures(StringMap<bool> &), up to LLVM 18. */
bool _ZN4llvm3sys18getHostCPUFeaturesERNS_9StringMapIbNS_15MallocAllocatorEEE(struct features *features);
bool _ZN4llvm3sys18getHostCPUFeaturesERNS_9StringMapIbNS_15MallocAllocatorEEE(struct features *features)
{
	bool (*call)(struct features *);

	find_own(__func__, &call);
	if (!call || !call(features))
		return false;
	withhold(features);
	return true;
}

/* llvm::sys::getHostCPUFeatures(), of later versions: the caller passes the place of the result. */
struct features *_ZN4llvm3sys18getHostCPUFeaturesEv(struct features *features);
struct features *_ZN4llvm3sys18getHostCPUFeaturesEv(struct features *features)
{
	struct features *(*call)(struct features *);

	find_own(__func__, &call);
	*features = (struct features){ .entry_bytes = sizeof(struct feature) };
	if (call)
		call(features);
	withhold(features);
	return features;
}

/* llvm::sys::getHostCPUName(). */
struct words _ZN4llvm3sys14getHostCPUNameEv(void);
struct words _ZN4llvm3sys14getHostCPUNameEv(void)
{
	const char *name = lacking() ? getenv("OLDER_PROCESSOR") : "x86-64";
	struct words (*call)(void);

	find_own(__func__, &call);
	return call && !lacking() ? call() : (struct words){ name, strlen(name) };
}
