/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks TensorFlow's functions up in the process.
 */
#include <dlfcn.h>
#include <string.h>

#include "bindings/tensorflow/tf_api.h"

struct cg_tf_api cg_tf;

/* Python's TensorFlow makes its functions global; another program may have opened TensorFlow's library without making its functions
 * global. */
static void *find_symbol(const char *name)
{
	static const char *const libraries[] = { "libtensorflow_framework.so.2", "libtensorflow_cc.so.2", "libtensorflow.so.2" };
	void *symbol = dlsym(RTLD_DEFAULT, name);

	for (size_t k = 0; !symbol && k < sizeof libraries / sizeof *libraries; k++) {
		void *library = dlopen(libraries[k], RTLD_LAZY | RTLD_NOLOAD);

		if (!library)
			continue;
		symbol = dlsym(library, name);
		dlclose(library);
	}
	return symbol;
}

const char *cg_tf_look_up(void)
{
#define ROW(result, name, arguments) { "TF_" #name, offsetof(struct cg_tf_api, name) },
	static const struct { const char *name; size_t at; } rows[] = { CG_TF_FUNCTIONS(ROW) };

	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		void *symbol = find_symbol(rows[k].name);

		if (!symbol)
			return rows[k].name;
		/* In POSIX a pointer to a function and a pointer to data have the same size. */
		memcpy((char *)&cg_tf + rows[k].at, &symbol, sizeof symbol);
	}
	return NULL;
}
