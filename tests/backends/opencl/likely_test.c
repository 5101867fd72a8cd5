/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests when OpenCL's drivers are loaded although no backend is named: the rule looks for device files, and reads the vendors' folder and
 * the loaders' variables, of a system that is made up for each test. The test loads nothing of OpenCL. cg_cl_is_likely() does not wait for
 * data in a named pipe.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "backends/opencl/opencl.h"

static char root[512], text[1024];

static const char *path_of(const char *below)
{
	snprintf(text, sizeof text, "%s%s", root, below);
	return text;
}

static int remove_one(const char *path, const struct stat *s, int what, struct FTW *at)
{
	(void)s, (void)what, (void)at;
	return remove(path);
}

static int end(void **state)
{
	static const char *const names[] = {
		"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "RUSTICL_ENABLE", "CELLGRAD_OPENCL_LIB"
	};

	(void)state;
	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		unsetenv(names[k]);
	if (*root)
		nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	*root = '\0';
	return 0;
}

/* Makes a system with an empty /dev/dri and an empty folder of vendors. */
static int begin(void **state)
{
	static const char *const folders[] = { "/dev", "/dev/dri", "/etc", "/etc/OpenCL", "/etc/OpenCL/vendors" };
	const char *at = getenv("TMPDIR");

	end(state);
	snprintf(root, sizeof root, "%s/likely-XXXXXX", at && *at == '/' ? at : "/tmp");
	if (!mkdtemp(root))
		return 1;
	for (size_t k = 0; k < sizeof folders / sizeof *folders; k++)
		if (mkdir(path_of(folders[k]), 0700))
			return 1;
	return 0;
}

static void put(const char *below, const char *text)
{
	FILE *f = fopen(path_of(below), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

#define VENDORS "/etc/OpenCL/vendors"

static void expect_yes(void)
{
	if (cg_cl_is_likely(root))
		fail_msg("%s", cg_message());
}

static void expect_no(const char *text)
{
	assert_int_equal(cg_cl_is_likely(root), CG_NO_DEVICE);
	if (!strstr(cg_message(), text))
		fail_msg("expected \"%s\" in \"%s\"", text, cg_message());
}

static void test_devices(void **state)
{
	static const char *const gpus[] = { "/dev/dri/renderD128", "/dev/kfd", "/dev/nvidia0", "/dev/nvidiactl", "/dev/mali0", "/dev/dxg" };
	static const char *const others[] = { "/dev/dri/card0", "/dev/kfd2", "/dev/null", "/dev/renderD128" };

	(void)state;
	put(VENDORS "/gpu.icd", "libigdrcl.so\n");
	expect_no("/dev/dri/renderD*, /dev/kfd, /dev/nvidia*, /dev/mali*, /dev/dxg");
	for (size_t k = 0; k < sizeof gpus / sizeof *gpus; k++) {
		put(gpus[k], "");
		expect_yes();
		assert_int_equal(unlink(path_of(gpus[k])), 0);
	}
	for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
		put(others[k], "");
		expect_no("no device file of a GPU");
	}
	assert_int_equal(unlink(path_of("/dev/dri/card0")), 0);
	assert_int_equal(rmdir(path_of("/dev/dri")), 0);
	expect_no("no device file of a GPU");
}

static void test_drivers(void **state)
{
	static const char *const unlikely[] = {
		"libpocl.so.2.10.0", "/usr/lib/libpocl.so.2\n", "libpocl.so", "/opt/intel/lib/libintelocl.so\r\n", "libintelocl_emu.so\n",
		"libRusticlOpenCL.so.1\nlibigdrcl.so\n", "/a/libigdrcl.so/libpocl.so.2",
	};
	static const char *const likely[] = {
		"libnvidia-opencl.so.1\n", "libMesaOpenCL.so.1", "/usr/lib/libigdrcl.so", "libamdocl64.so", "what is this", "\n", "\001\002",
		"/opt/libpocl/libmali.so",
	};

	(void)state;
	put("/dev/dri/renderD128", "");
	expect_no(VENDORS);
	for (size_t k = 0; k < sizeof unlikely / sizeof *unlikely; k++) {
		put(VENDORS "/one.icd", unlikely[k]);
		expect_no("for CPUs alone");
	}
	for (size_t k = 0; k < sizeof likely / sizeof *likely; k++) {
		put(VENDORS "/two.icd", likely[k]);
		expect_yes();
	}
	/* In the vendors' folder cg_cl_is_likely() reads only files whose names end in .icd, as the loaders do. */
	assert_int_equal(unlink(path_of(VENDORS "/two.icd")), 0);
	put(VENDORS "/two.icd.bak", "libigdrcl.so");
	put(VENDORS "/icd", "libigdrcl.so");
	expect_no("libpocl.so.2");
}

/* An entry of the vendors' folder that is no file, or an empty file, names no driver, and cg_cl_is_likely() does not wait for data. */
static void test_strange_files(void **state)
{
	char to[1024];

	(void)state;
	put("/dev/kfd", "");
	assert_int_equal(mkdir(path_of(VENDORS "/folder.icd"), 0700), 0);
	assert_int_equal(mkfifo(path_of(VENDORS "/pipe.icd"), 0600), 0);
	assert_int_equal(symlink("/dev/zero", path_of(VENDORS "/zero.icd")), 0);
	assert_int_equal(symlink("nowhere", path_of(VENDORS "/gone.icd")), 0);
	put(VENDORS "/empty.icd", "");
	expect_no(VENDORS);
	snprintf(to, sizeof to, "%s%s", root, VENDORS "/pipe.icd");
	setenv("OCL_ICD_VENDORS", to, 1);
	expect_no(VENDORS);
	unsetenv("OCL_ICD_VENDORS");
	/* A link to a file counts as a file. */
	put("/real", "libigdrcl.so");
	snprintf(to, sizeof to, "%s/real", root);
	assert_int_equal(symlink(to, path_of(VENDORS "/link.icd")), 0);
	expect_yes();
}

/* Makes so many .icd files that cg_cl_is_likely() does not read all: a file that is not read may name a GPU's driver. */
static void test_many_drivers(void **state)
{
	char name[64];

	(void)state;
	put("/dev/kfd", "");
	for (int k = 0; k < 1000; k++) {
		snprintf(name, sizeof name, VENDORS "/%d.icd", k);
		put(name, "libpocl.so.2");
	}
	expect_no("libpocl.so.2");
	for (int k = 1000; k < 5000; k++) {
		snprintf(name, sizeof name, VENDORS "/%d.icd", k);
		put(name, "libpocl.so.2");
	}
	expect_yes();
	/* Of a file whose only line is 1 GiB long, cg_cl_is_likely() reads a part. */
	nftw(path_of(VENDORS), remove_one, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(mkdir(path_of(VENDORS), 0700), 0);
	put(VENDORS "/long.icd", "libpocl");
	assert_int_equal(truncate(path_of(VENDORS "/long.icd"), (off_t)1 << 30), 0);
	expect_no("libpocl");
}

/* Without the vendors' folder a GPU's device file is enough: the OpenCL loader searches elsewhere, or is the GPU's driver itself. */
static void test_no_folder(void **state)
{
	(void)state;
	put("/dev/mali0", "");
	assert_int_equal(rmdir(path_of(VENDORS)), 0);
	expect_yes();
	assert_int_equal(unlink(path_of("/dev/mali0")), 0);
	expect_no("no device file");
}

static void test_variables(void **state)
{
	char here[1024];

	(void)state;
	put("/dev/dri/renderD129", "");
	put(VENDORS "/pocl.icd", "libpocl.so.2");
	assert_int_equal(mkdir(path_of("/mine"), 0700), 0);
	put("/mine/gpu.icd", "libigdrcl.so");
	put("/mine/rusticl.icd", "libRusticlOpenCL.so.1");

	expect_no("libpocl");
	setenv("OPENCL_VENDOR_PATH", path_of("/mine"), 1);
	expect_yes();
	/* OCL_ICD_VENDORS has precedence over OPENCL_VENDOR_PATH. */
	setenv("OCL_ICD_VENDORS", path_of(VENDORS), 1);
	expect_no("libpocl");
	unsetenv("OPENCL_VENDOR_PATH");
	setenv("OCL_ICD_VENDORS", path_of("/mine"), 1);
	expect_yes();
	setenv("OCL_ICD_VENDORS", "", 1);
	expect_no("libpocl");

	/* OCL_ICD_VENDORS may name an .icd file, by its path or by its name in the vendors' folder, or a library. */
	setenv("OCL_ICD_VENDORS", path_of("/mine/gpu.icd"), 1);
	expect_yes();
	setenv("OCL_ICD_VENDORS", path_of("/mine/rusticl.icd"), 1);
	expect_no("RUSTICL_ENABLE");
	setenv("RUSTICL_ENABLE", "radeonsi", 1);
	expect_yes();
	setenv("RUSTICL_ENABLE", "", 1);
	expect_no("RUSTICL_ENABLE");
	setenv("OCL_ICD_VENDORS", "pocl.icd", 1);
	expect_no("libpocl");
	put(VENDORS "/pocl.icd", "libother.so");
	expect_yes();
	setenv("OCL_ICD_VENDORS", "nowhere.icd", 1);
	expect_no(VENDORS);
	setenv("OCL_ICD_VENDORS", "/opt/libpocl.so.2", 1);
	expect_no("libpocl");
	setenv("OCL_ICD_VENDORS", "libigdrcl.so", 1);
	expect_yes();

	/* OCL_ICD_FILENAMES names libraries in addition to those of the vendors' folder. */
	put(VENDORS "/pocl.icd", "libpocl.so.2");
	unsetenv("OCL_ICD_VENDORS");
	setenv("OCL_ICD_FILENAMES", "/a/libpocl.so.2::libintelocl.so:", 1);
	expect_no("libintelocl");
	setenv("OCL_ICD_FILENAMES", "/a/libpocl.so.2:libigdrcl.so", 1);
	expect_yes();
	unsetenv("OCL_ICD_FILENAMES");

	/* A library that CELLGRAD_OPENCL_LIB names need not be in the vendors' folder, but must exist. */
	snprintf(here, sizeof here, "%s/libOpenCL.so", root);
	setenv("CELLGRAD_OPENCL_LIB", here, 1);
	assert_int_equal(cg_cl_is_likely(root), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "CELLGRAD_OPENCL_LIB"));
	put("/libOpenCL.so", "");
	expect_yes();
	snprintf(here, sizeof here, "%s/libpocl.so", root);
	put("/libpocl.so", "");
	setenv("CELLGRAD_OPENCL_LIB", here, 1);
	expect_no("libpocl");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_devices, begin, end), cmocka_unit_test_setup_teardown(test_drivers, begin, end),
		cmocka_unit_test_setup_teardown(test_strange_files, begin, end), cmocka_unit_test_setup_teardown(test_many_drivers, begin, end),
		cmocka_unit_test_setup_teardown(test_no_folder, begin, end), cmocka_unit_test_setup_teardown(test_variables, begin, end),
	};

#ifndef __linux__
	printf("1..0 # SKIP which device files are GPUs' is known of Linux alone\n");
	return 0;
#endif
	return cmocka_run_group_tests_name("likely", tests, NULL, NULL);
}
