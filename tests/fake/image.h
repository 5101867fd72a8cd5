/* SPDX-License-Identifier: Apache-2.0 */
/* The format of the images that the stand-in for NVRTC writes and that for the driver loads: a cubin is the bytes of the image, PTX has
   the same bytes in hexadecimal digits. */
#ifndef FAKE_IMAGE_H
#define FAKE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_IMAGE_MAGIC "\177ELFFAKE"
#define FAKE_PTX_START "//\n// Made by a stand-in for NVRTC\n//\n"

struct fake_image {
	char magic[8];
	uint64_t bytes, sum;                     /* the size and the checksum of the shared object, which follows the struct */
	int32_t arch, version, flush, virtual_arch;
};

static inline uint64_t fake_sum(const void *data, size_t bytes)
{
	const unsigned char *at = data;
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t k = 0; k < bytes; k++)
		sum = (sum ^ at[k]) * UINT64_C(0x100000001b3);
	return sum;
}

#endif
