/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for signs of a GPU before any driver of OpenCL is loaded, where no backend is named.  Loading a driver takes long, starts threads,
 * and has crashed processes with an LLVM of their own or too little memory; and the loader loads all drivers at once.  So this file first
 * looks, on Linux, for two things: the device file of a GPU, and a driver that is not for processors alone among those that the loader
 * would load.  If this file cannot tell, it assumes that there is a driver of a GPU.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/opencl/opencl.h"
#include "runtime/core/environment.h"

enum { PATH = 1024, LINE = 512, ENTRIES = 4096, SEEN = 512 };

/* The device files of GPUs, by the beginnings of their names.  in_full: the whole name must match. */
static const struct { const char *folder, *name; int in_full; } devices[] = {
	{ "/dev/dri", "renderD", 0 },
	{ "/dev", "kfd", 1 },
	{ "/dev", "nvidia", 0 },
	{ "/dev", "mali", 0 },
	{ "/dev", "dxg", 1 },
};

/* Drivers for processors alone, by the beginnings of their libraries' names.  Field `variable`: an environment variable; if it is set,
 * the driver may be for a GPU, too.  Field `variable` is -1 if the driver is for processors alone whatever the environment. */
static const struct { const char *library; int variable; } for_processors[] = {
	{ "libpocl", -1 },
	{ "libintelocl", -1 },                   /* Intel's runtime for processors; its runtime for GPUs is libigdrcl */
	{ "libRusticlOpenCL", CG_ENV_RUSTICL_ENABLE },
};

/* ---- device files ---- */

static int has_device(const char *root, const char *folder, const char *name, int in_full)
{
	char path[PATH];
	struct dirent *entry;
	int found = 0;
	DIR *list;

	snprintf(path, sizeof path, "%s%s", root, folder);
	list = opendir(path);
	while (list && !found && (entry = readdir(list)))
		found = in_full ? !strcmp(entry->d_name, name) : !strncmp(entry->d_name, name, strlen(name));
	if (list)
		closedir(list);
	return found;
}

static int check_devices(const char *root)
{
	char names[256] = "";

	for (size_t k = 0; k < sizeof devices / sizeof *devices; k++) {
		size_t n = strlen(names);

		if (has_device(root, devices[k].folder, devices[k].name, devices[k].in_full))
			return CG_OK;
		snprintf(names + n, sizeof names - n, "%s%s/%s%s", n ? ", " : "", devices[k].folder, devices[k].name,
		         devices[k].in_full ? "" : "*");
	}
	return cg_fail(CG_NO_DEVICE, "there is no device file of a GPU, which would be one of %s", names);
}

/* ---- drivers ---- */

/* What is known so far of the drivers that the loader would load. */
struct look {
	int possible;                            /* 1: one of these drivers may be for a GPU */
	char seen[SEEN];                         /* the names of the drivers that are not for a GPU, separated by commas */
};

/* Judges by the name or path of a driver's library whether the driver may be for a GPU. */
static void judge(struct look *look, const char *library)
{
	const char *slash = strrchr(library, '/'), *name = slash ? slash + 1 : library;
	size_t n = strlen(look->seen);

	for (size_t k = 0; k < sizeof for_processors / sizeof *for_processors; k++) {
		int variable = for_processors[k].variable;

		if (strncmp(name, for_processors[k].library, strlen(for_processors[k].library)))
			continue;
		if (variable >= 0 && cg_variable_get(variable))
			break;
		snprintf(look->seen + n, SEEN - n, "%s%.60s%s%s%s", n ? ", " : "", name, variable < 0 ? "" : " (",
		         variable < 0 ? "" : cg_variables[variable].name, variable < 0 ? "" : " is unset)");
		return;
	}
	look->possible = 1;
}

/* Judges whether the driver that the first line of an .icd file names may be for a GPU.  A folder, a pipe, a device and an unreadable file
 * name no driver. */
static void judge_file(struct look *look, int folder, const char *path)
{
	char line[LINE];
	struct stat s;
	ssize_t n;
	int fd;

	if (fstatat(folder, path, &s, 0) || !S_ISREG(s.st_mode))
		return;
	fd = openat(folder, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, line, sizeof line - 1);
	close(fd);
	if (n <= 0)
		return;
	line[n] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	judge(look, line);
}

static int ends_in_icd(const char *name)
{
	size_t n = strlen(name);

	return n >= 4 && !strcmp(name + n - 4, ".icd");
}

/* Judges whether the drivers that the .icd files of a folder name may be for a GPU.  Assumes a GPU if there is no such folder, since the
 * loader then looks elsewhere or is a driver itself, if memory or descriptors are exhausted, or if the folder has more than ENTRIES
 * entries. */
static void judge_folder(struct look *look, const char *path)
{
	DIR *list = opendir(path);
	struct dirent *entry;
	int n = 0;

	if (!list) {
		look->possible |= errno == ENOENT || errno == ENOMEM || errno == EMFILE || errno == ENFILE;
		return;
	}
	while (!look->possible && (entry = readdir(list)))
		if (++n > ENTRIES)
			look->possible = 1;
		else if (ends_in_icd(entry->d_name))
			judge_file(look, dirfd(list), entry->d_name);
	closedir(list);
}

static int is_folder(const char *path)
{
	struct stat s;

	return !stat(path, &s) && S_ISDIR(s.st_mode);
}

/* Judges the drivers of the folder of .icd files or, if OCL_ICD_VENDORS is set, the drivers of what this variable names: another folder; an
 * .icd file, which is first searched in the folder of .icd files if its name has no slash; or a driver's library. */
static void judge_vendors(struct look *look, const char *root)
{
	const char *named = cg_variable_get(CG_ENV_OCL_ICD_VENDORS), *path = cg_variable_get(CG_ENV_OPENCL_VENDOR_PATH);
	char folder[PATH], file[2 * PATH];

	snprintf(folder, sizeof folder, "%s%s", path ? "" : root, path ? path : cg_variables[CG_ENV_OPENCL_VENDOR_PATH].fallback);
	if (!named) {
		judge_folder(look, folder);
	} else if (is_folder(named)) {
		judge_folder(look, named);
	} else if (!ends_in_icd(named)) {
		judge(look, named);
	} else {
		int is_whole = snprintf(file, sizeof file, "%s/%s", folder, named) < (int)sizeof file;

		judge_file(look, AT_FDCWD, is_whole && !strchr(named, '/') && !access(file, F_OK) ? file : named);
	}
}

/* Judges by their names whether libraries that OCL_ICD_FILENAMES lists, separated by colons, may be drivers for a GPU; the loader loads
 * these drivers in addition to the others. */
static void judge_filenames(struct look *look)
{
	const char *at = cg_variable_get(CG_ENV_OCL_ICD_FILENAMES);
	char library[PATH];

	for (; at && *at && !look->possible; at += strcspn(at, ":"), at += *at == ':') {
		snprintf(library, sizeof library, "%.*s", (int)strcspn(at, ":"), at);
		if (*library)
			judge(look, library);
	}
}

#ifdef __linux__
enum { FILES_ARE_KNOWN = 1 };
#else
enum { FILES_ARE_KNOWN = 0 };            /* 0: on systems other than Linux it is not known which device files belong to GPUs */
#endif

int cg_cl_is_likely(const char *root)
{
	const char *library = cg_variable_get(CG_ENV_OPENCL_LIB);
	struct look look = { 0, "" };

	CG_TRY(cg_variable_read(CG_ENV_OPENCL_LIB, NULL));
	if (library && access(library, R_OK))
		return cg_fail(CG_BAD_ARGUMENT, "no OpenCL loader: CELLGRAD_OPENCL_LIB: %.300s: %s", library, strerror(errno));
	if (!FILES_ARE_KNOWN)
		return CG_OK;
	CG_TRY(check_devices(root));
	/* A library that CELLGRAD_OPENCL_LIB names may be a driver itself, or a loader that looks for drivers elsewhere. */
	if (library) {
		judge(&look, library);
	} else {
		judge_filenames(&look);
		if (!look.possible)
			judge_vendors(&look, root);
	}
	if (look.possible)
		return CG_OK;
	if (*look.seen)
		return cg_fail(CG_NO_DEVICE, "the OpenCL drivers are for CPUs alone: %s", look.seen);
	return cg_fail(CG_NO_DEVICE, "there is no OpenCL driver: the loader finds drivers in %s, or where OCL_ICD_VENDORS, OPENCL_VENDOR_PATH "
	               "and OCL_ICD_FILENAMES say", cg_variables[CG_ENV_OPENCL_VENDOR_PATH].fallback);
}
