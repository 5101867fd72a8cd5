/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file for TensorFlow's folder tensorflow-plugins, whose libraries TensorFlow loads while it is imported: it loads the plugin.  If a
 * library in tensorflow-plugins does not load, TensorFlow cannot be imported.  The loader needs no library but the system's; if the plugin
 * does not load, the loader keeps the reason and TensorFlow's import goes on.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bindings/tensorflow/tf_plugin.h"

#define NAME "cellgrad_tensorflow.so"

static int is_loaded;
static char state[PATH_MAX + 512] = "TensorFlow has not called the loader";

/* Finds the folder of the loader's file, with symbolic links followed; returns 0 if the system does not say it. */
static int find_folder(char folder[PATH_MAX])
{
	Dl_info self;

	if (!dladdr((void *)(size_t)TF_InitKernel, &self) || !realpath(self.dli_fname, folder))
		return 0;
	*strrchr(folder, '/') = '\0';
	return 1;
}

/*
 * Finds the path of the plugin: the path in CELLGRAD_TF_PLUGIN; else the file in the loader's folder, as `make install` puts it; else the
 * file of the Python package, in the folder cellgrad beside tensorflow-plugins.
 */
static int find_plugin(char *path, size_t capacity)
{
	static const char *const places[] = { "", "/../cellgrad" };
	/* A program that runs with another user's rights does not load what its caller names. */
	const char *named = geteuid() == getuid() && getegid() == getgid() ? getenv("CELLGRAD_TF_PLUGIN") : NULL;
	char folder[PATH_MAX];

	if (named && *named)
		return snprintf(path, capacity, "%s", named) < (int)capacity;
	if (!find_folder(folder))
		return 0;
	for (size_t k = 0; k < sizeof places / sizeof *places; k++)
		if (snprintf(path, capacity, "%s%s/" NAME, folder, places[k]) < (int)capacity && !access(path, F_OK))
			return 1;
	return 0;
}

static void load_plugin(void)
{
	char path[PATH_MAX];

	if (!find_plugin(path, sizeof path))
		snprintf(state, sizeof state, "there is no " NAME " for the loader in tensorflow-plugins: install cellgrad of the same version, or "
		         "set CELLGRAD_TF_PLUGIN to the path of " NAME);
	else if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
		snprintf(state, sizeof state, "the plugin does not load: %s", dlerror());
	else {
		is_loaded = 1;
		snprintf(state, sizeof state, "loaded %s", path);
	}
}

/* TensorFlow calls this function of the loader, which loads the plugin.  Under CELLGRAD_VERBOSE=1 the plugin
 * reports in a line of its own what it registered. */
CG_API void TF_InitKernel(void)
{
	static int is_done;
	const char *verbose = getenv("CELLGRAD_VERBOSE");

	if (is_done)
		return;
	is_done = 1;
	load_plugin();
	if (!is_loaded && verbose && (!strcmp(verbose, "1") || !strcmp(verbose, "calls")))
		fprintf(stderr, "cellgrad: TensorFlow: %s\n", state);
}

int cellgrad_tensorflow_loader_state(const char **text)
{
	*text = state;
	return is_loaded;
}
