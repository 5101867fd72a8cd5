/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the loader for TensorFlow's folder tensorflow-plugins, in a host that plays TensorFlow: where it finds the plugin; and that the
 * loader itself loads, and gives the reason, if the plugin is missing or does not load.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/bindings/tensorflow/tf_host.h"

static const char loader[] = ".libs/cellgrad_tensorflow_loader.so";
static const char plugin[] = ".libs/cellgrad_tensorflow.so";

/* A folder with tensorflow-plugins and cellgrad in it, as in site-packages; every test has a new one, since the loader keeps its state. */
static char room[64];

static int make_room(void **unused)
{
	static int count;
	char path[96];

	(void)unused;
	snprintf(room, sizeof room, "./tf_loader_%d_%d", (int)getpid(), count++);
	if (mkdir(room, 0700))
		return -1;
	snprintf(path, sizeof path, "%s/tensorflow-plugins", room);
	if (mkdir(path, 0700))
		return -1;
	snprintf(path, sizeof path, "%s/cellgrad", room);
	return mkdir(path, 0700);
}

static int remove_room(void **unused)
{
	char command[96];

	(void)unused;
	unsetenv("CELLGRAD_TF_PLUGIN");
	snprintf(command, sizeof command, "rm -rf %s", room);
	return system(command);
}

static void copy(const char *file, const char *to)
{
	char command[256];

	snprintf(command, sizeof command, "cp %s %s/%s", file, room, to);
	assert_int_equal(system(command), 0);
}

/* Makes the host forget all registered kernels, loads a loader as TensorFlow does, and calls its TF_InitKernel twice.  Returns 1 if the
   loader then has loaded the plugin, else 0; expects 11 registered ops for 1, and none for 0. */
static int load_from(const char *file, const char **state)
{
	char path[128];
	void *library, (*initialise)(void) = NULL;
	int (*ask)(const char **) = NULL, priority;

	snprintf(path, sizeof path, "%s/%s", room, file);
	host_forget();
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	*(void **)&ask = dlsym(library, "cellgrad_tensorflow_loader_state");
	*(void **)&initialise = dlsym(library, "TF_InitKernel");
	assert_true(ask && initialise);
	assert_int_equal(ask(state), 0);
	assert_string_equal(*state, "TensorFlow has not called the loader");
	assert_null(host_op(0, &priority));
	initialise();
	initialise();
	if (ask(state))
		assert_non_null(host_op(10, &priority));
	else
		assert_null(host_op(0, &priority));
	assert_null(host_op(11, &priority));
	return ask(state);
}

static void need_modules(void)
{
	if (access(loader, R_OK) || access(plugin, R_OK))
		skip();
}

/* The loader finds the plugin in the folder cellgrad beside the loader's own folder, as in site-packages. */
static void test_package(void **unused)
{
	const char *state;

	(void)unused;
	need_modules();
	copy(loader, "tensorflow-plugins/loader.so");
	copy(plugin, "cellgrad/cellgrad_tensorflow.so");
	assert_int_equal(load_from("tensorflow-plugins/loader.so", &state), 1);
	assert_non_null(strstr(state, "/tensorflow-plugins/../cellgrad/cellgrad_tensorflow.so"));
}

/* The file that TensorFlow loads is a link to a loader in the folder cellgrad; the loader finds the plugin in the folder cellgrad. */
static void test_link(void **unused)
{
	char path[128];
	const char *state;

	(void)unused;
	need_modules();
	copy(loader, "cellgrad/loader.so");
	copy(plugin, "cellgrad/cellgrad_tensorflow.so");
	snprintf(path, sizeof path, "%s/tensorflow-plugins/link.so", room);
	assert_int_equal(symlink("../cellgrad/loader.so", path), 0);
	assert_int_equal(load_from("tensorflow-plugins/link.so", &state), 1);
	assert_non_null(strstr(state, "/cellgrad/cellgrad_tensorflow.so"));
}

/* The loader loads the plugin that CELLGRAD_TF_PLUGIN names, and no plugin if that file is absent, although the folder cellgrad has a
   plugin. */
static void test_named(void **unused)
{
	char path[128];
	const char *state;

	(void)unused;
	need_modules();
	copy(loader, "tensorflow-plugins/loader.so");
	copy(plugin, "cellgrad/cellgrad_tensorflow.so");
	copy(plugin, "other.so");
	snprintf(path, sizeof path, "%s/other.so", room);
	setenv("CELLGRAD_TF_PLUGIN", path, 1);
	assert_int_equal(load_from("tensorflow-plugins/loader.so", &state), 1);
	assert_non_null(strstr(state, "/other.so"));
	copy(loader, "tensorflow-plugins/second.so");
	setenv("CELLGRAD_TF_PLUGIN", "/nowhere/x.so", 1);
	assert_int_equal(load_from("tensorflow-plugins/second.so", &state), 0);
	assert_non_null(strstr(state, "the plugin does not load: /nowhere/x.so"));
}

static void test_missing(void **unused)
{
	const char *state;

	(void)unused;
	need_modules();
	copy(loader, "tensorflow-plugins/loader.so");
	assert_int_equal(load_from("tensorflow-plugins/loader.so", &state), 0);
	assert_non_null(strstr(state, "there is no cellgrad_tensorflow.so for the loader in tensorflow-plugins: install cellgrad"));
}

/* If the plugin's file is no library, the loader loads no plugin, and the loader's state names the file. */
static void test_damaged(void **unused)
{
	const char *state;

	(void)unused;
	need_modules();
	copy(loader, "tensorflow-plugins/loader.so");
	copy("Makefile", "cellgrad/cellgrad_tensorflow.so");
	assert_int_equal(load_from("tensorflow-plugins/loader.so", &state), 0);
	assert_non_null(strstr(state, "the plugin does not load: "));
	assert_non_null(strstr(state, "/cellgrad/cellgrad_tensorflow.so: "));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_package, make_room, remove_room),
		cmocka_unit_test_setup_teardown(test_link, make_room, remove_room),
		cmocka_unit_test_setup_teardown(test_named, make_room, remove_room),
		cmocka_unit_test_setup_teardown(test_missing, make_room, remove_room),
		cmocka_unit_test_setup_teardown(test_damaged, make_room, remove_room),
	};

	return cmocka_run_group_tests_name("tf_loader", tests, NULL, NULL);
}
