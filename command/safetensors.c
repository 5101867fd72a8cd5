/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes safetensors files.  The caller chooses the tensors of a written file, their dtypes and shapes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/claim.h"
#include "command/output.h"
#include "command/safetensors.h"
#include "runtime/device/inspect.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors are little-endian, and this reader uses the numbers as the file has them: expected a little-endian host"
#endif

static const uint64_t header_most = 100000000;           /* the most bytes of a header, the limit of the format's reference reader */

static const struct dtype {
	const char *code;
	int bits, cg;
} dtypes[] = {
#define ROW(with, code, name, numpy, tf, bytes, ...) { #code, 8 * bytes, CG_##code },
	CG_DTYPES(ROW,)
	{ "I64", 64, -1 }, { "I32", 32, -1 }, { "I16", 16, -1 }, { "I8", 8, -1 }, { "BOOL", 8, -1 },
	{ "U64", 64, -1 }, { "U32", 32, -1 }, { "U16", 16, -1 }, { "U8", 8, -1 }, { "C64", 64, -1 },
	{ "F8_E4M3", 8, -1 }, { "F8_E4M3FNUZ", 8, -1 }, { "F8_E5M2", 8, -1 }, { "F8_E5M2FNUZ", 8, -1 },
	{ "F8_E8M0", 8, -1 }, { "F6_E2M3", 6, -1 }, { "F6_E3M2", 6, -1 }, { "F4", 4, -1 },
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static const struct dtype *dtype_of(const char *code)
{
	for (int k = 0; k < DTYPES; k++)
		if (!strcmp(dtypes[k].code, code))
			return &dtypes[k];
	return NULL;
}

const char *safetensors_code(int cg)
{
	for (int k = 0; k < DTYPES; k++)
		if (dtypes[k].cg == cg)
			return dtypes[k].code;
	return "?";
}

const char *safetensors_dtype(const struct safetensors_tensor *t)
{
	return t->cg >= 0 ? cg_dtype_name(t->cg) : t->dtype;
}

/* ---- reading ---- */

#define WRONG(...) cg_fail(CG_FILE, __VA_ARGS__)

/* Reads a JSON list of whole numbers.  An item that is negative, or no whole number, is an error, whose message contains the list's key. */
static int numbers(const char *path, const char *name, const char *key, const json_t *list, int64_t *out,
                   int most, int *n)
{
	size_t k;
	json_t *item;

	if (!json_is_array(list))
		return WRONG("%s: tensor %s: \"%s\" is missing or not a list", path, name, key);
	if (json_array_size(list) > (size_t)most)
		return WRONG("%s: tensor %s: \"%s\": expected at most %d numbers, got %zu", path, name, key, most,
		             json_array_size(list));
	json_array_foreach(list, k, item) {
		if (!json_is_integer(item) || json_integer_value(item) < 0)
			return WRONG("%s: tensor %s: \"%s\": expected whole numbers of at least 0, got something else", path,
			             name, key);
		out[k] = json_integer_value(item);
	}
	*n = (int)json_array_size(list);
	return CG_OK;
}

/* Computes a tensor's bytes from its dtype and shape.  An overflow is an error even where a later dimension is 0. */
static int size_of(const char *path, const char *name, const struct safetensors_tensor *t,
                   const struct dtype *dtype, uint64_t *bytes)
{
	char shape[PRINT_SHAPE];
	uint64_t bits = (uint64_t)dtype->bits;

	for (int k = 0; k < t->rank; k++)
		if (__builtin_mul_overflow(bits, (uint64_t)t->shape[k], &bits))
			return WRONG("%s: tensor %s: a tensor of dtype %s and shape %s is too large", path, name, t->dtype,
			             print_shape(shape, t->shape, t->rank));
	if (bits % 8)
		return WRONG("%s: tensor %s: a tensor of dtype %s and shape %s is no whole number of bytes", path, name, t->dtype,
		             print_shape(shape, t->shape, t->rank));
	*bytes = bits / 8;
	return CG_OK;
}

static int tensor(const char *path, const char *key, const json_t *entry, const unsigned char *data,
                  uint64_t total, struct safetensors_tensor *t)
{
	char name[PRINT_NAME], code[PRINT_NAME], shape[PRINT_SHAPE];
	const struct dtype *dtype;
	int64_t at[2];
	uint64_t bytes = 0;
	int n;

	print_name(name, key);
	if (!json_is_object(entry))
		return WRONG("%s: tensor %s: expected an object with dtype, shape and data_offsets", path, name);
	t->name = key;
	t->dtype = json_string_value(json_object_get(entry, "dtype"));
	if (!t->dtype)
		return WRONG("%s: tensor %s: \"dtype\" is missing or no string", path, name);
	CG_TRY(numbers(path, name, "shape", json_object_get(entry, "shape"), t->shape, SAFETENSORS_RANK,
	               &t->rank));
	CG_TRY(numbers(path, name, "data_offsets", json_object_get(entry, "data_offsets"), at, 2, &n));
	if (n != 2 || at[0] > at[1])
		return WRONG("%s: tensor %s: \"data_offsets\": expected the beginning and the end of the tensor, got other numbers", path, name);
	if ((uint64_t)at[1] > total)
		return WRONG("%s: tensor %s ends at byte %lld of the data, which has %llu bytes: the file is cut short or damaged",
		             path, name, (long long)at[1], (unsigned long long)total);
	t->data = data + at[0];
	t->bytes = (size_t)(at[1] - at[0]);
	dtype = dtype_of(t->dtype);
	t->cg = dtype ? dtype->cg : -1;
	if (!dtype)
		return CG_OK;                    /* no op reads a tensor of an unknown dtype, but other programs may */
	CG_TRY(size_of(path, name, t, dtype, &bytes));
	if (bytes != t->bytes)
		return WRONG("%s: tensor %s: dtype %s and shape %s take %llu bytes, but \"data_offsets\" give %zu", path, name,
		             print_name(code, t->dtype), print_shape(shape, t->shape, t->rank),
		             (unsigned long long)bytes, t->bytes);
	return CG_OK;
}

static int by_offset(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;

	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	/* An empty tensor is sorted before another tensor at the same place. */
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Sorts the tensors by their place in the data, and checks that the tensors fill the data without overlap or gap. */
static int tile(struct safetensors *s, const unsigned char *data, uint64_t total)
{
	char name[PRINT_NAME], before[PRINT_NAME];
	uint64_t end = 0;

	if (s->n)
		qsort(s->tensors, s->n, sizeof *s->tensors, by_offset);
	for (size_t k = 0; k < s->n; k++) {
		const struct safetensors_tensor *t = &s->tensors[k];
		uint64_t begin = (uint64_t)(t->data - data);

		print_name(name, t->name);
		if (begin < end)
			return WRONG("%s: tensor %s begins at byte %llu of the data, inside tensor %s, which ends at byte %llu",
			             s->path, name, (unsigned long long)begin,
			             print_name(before, s->tensors[k - 1].name), (unsigned long long)end);
		if (begin > end)
			return WRONG("%s: tensor %s begins at byte %llu of the data, but the bytes from %llu up to there belong to no tensor",
			             s->path, name, (unsigned long long)begin, (unsigned long long)end);
		end = begin + t->bytes;
	}
	if (end != total)
		return WRONG("%s: the file has %llu byte%s after the last tensor: expected none", s->path, (unsigned long long)(total - end),
		             total - end == 1 ? "" : "s");
	return CG_OK;
}

/* Kinds of files that users often take for safetensors: the first bytes of each kind, and what to do with such a file. */
#define SAVE "use safetensors.torch.save_file or safetensors.numpy.save_file; see docs/weights.md, cellgrad convert --help"
static const struct foreign { const char *beginning, *is, *instead; } foreign[] = {
	{ "PK\3\4",           "a zip file, as PyTorch's .pt and .pth, NumPy's .npz and Keras's .keras are", SAVE },
	{ "\x80\2",           "a pickle of Python, as old files of PyTorch are", SAVE },
	{ "\x80\3",           "a pickle of Python", SAVE },
	{ "\x80\4",           "a pickle of Python", SAVE },
	{ "\x80\5",           "a pickle of Python", SAVE },
	{ "\x93NUMPY",        "an array of NumPy, a .npy", SAVE },
	{ "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras's .h5 is", SAVE },
	{ "GGUF",             "a GGUF file", SAVE },
	{ "\x1f\x8b",         "compressed by gzip", "decompress it" },
	{ "version https://git-lfs", "what Git LFS leaves in the place of a file", "git lfs pull fetches the file" },
	{ "<!DOCTYPE",        "a page of the web", "get the file itself" },
	{ "<html",            "a page of the web", "get the file itself" },
};

/* Does a file look like Protocol Buffers?  Protocol Buffers have no mark of their own, but files of ONNX and TensorFlow begin with field 1,
 * a small number, and a field of bytes after that. */
static int is_protobuf(const unsigned char *bytes, size_t n)
{
	return n > 2 && bytes[0] == 0x08 && bytes[1] && bytes[1] < 0x40 && strchr("\x12\x1a\x3a\x42", bytes[2]) && bytes[2];
}

/* Reports which kind of file a file that is not safetensors is, if its first bytes show that; otherwise keeps the former message. */
static int report_kind(const struct safetensors *s, const unsigned char *bytes, size_t n)
{
	for (size_t k = 0; k < sizeof foreign / sizeof *foreign; k++) {
		const struct foreign *f = &foreign[k];

		if (n >= strlen(f->beginning) && !memcmp(bytes, f->beginning, strlen(f->beginning)))
			return WRONG("%s: no safetensors file, but %s: %s", s->path, f->is, f->instead);
	}
	if (is_protobuf(bytes, n))
		return WRONG("%s: no safetensors file, but Protocol Buffers, as an ONNX model or TensorFlow's saved_model.pb is: " SAVE, s->path);
	return CG_FILE;
}

static int header(struct safetensors *s, const char *text, size_t length)
{
	unsigned lost = print_json_lost();
	char name[PRINT_NAME];
	json_error_t error;
	const char *key;
	json_t *value;

	s->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	if (print_json_lost() != lost)
		return cg_fail(CG_NO_MEMORY, "%s: no memory for the header of %zu bytes", s->path, length);
	if (!s->header)
		return WRONG("%s: the header's JSON: %s (byte %d)", s->path, error.text, error.position);
	s->metadata = json_object_get(s->header, "__metadata__");
	if (!s->metadata)
		return CG_OK;
	if (!json_is_object(s->metadata))
		return WRONG("%s: __metadata__: expected an object of strings", s->path);
	json_object_foreach(s->metadata, key, value)
		if (!json_is_string(value))
			return WRONG("%s: __metadata__: %s: expected a string", s->path, print_name(name, key));
	return CG_OK;
}

/* Checks that a file has the header's length, a header of that length, and perhaps data. */
static int frame(const struct safetensors *s, const unsigned char *bytes, size_t n, uint64_t *length)
{
	int code = CG_OK;

	*length = 0;
	memcpy(length, bytes, n < 8 ? n : 8);
	if (n < 8)
		code = WRONG("%s: the file has %zu byte%s, too short for a safetensors file", s->path, n, n == 1 ? "" : "s");
	else if (*length > header_most)
		code = WRONG("%s: the file announces a header of %llu bytes, more than %llu: it is cut short, or no safetensors file",
		             s->path, (unsigned long long)*length, (unsigned long long)header_most);
	else if (*length > n - 8)
		code = WRONG("%s: the file announces a header of %llu bytes in a file of %zu: it is cut short, or no safetensors file",
		             s->path, (unsigned long long)*length, n);
	else if (!*length || bytes[8] != '{')
		code = WRONG("%s: the header is no JSON object: this is no safetensors file", s->path);
	return code ? report_kind(s, bytes, n) : CG_OK;
}

static int parse(struct safetensors *s, const unsigned char *bytes, size_t n)
{
	const unsigned char *data;
	const char *key;
	uint64_t length, total;
	json_t *entry;

	CG_TRY(frame(s, bytes, n, &length));
	data = bytes + 8 + length;
	total = n - 8 - length;
	CG_TRY(header(s, (const char *)bytes + 8, (size_t)length));
	s->tensors = cg_memory(NULL, (json_object_size(s->header) + 1) * sizeof *s->tensors);
	if (!s->tensors)
		return CG_NO_MEMORY;
	json_object_foreach(s->header, key, entry)
		if (entry != s->metadata)
			CG_TRY(tensor(s->path, key, entry, data, total, &s->tensors[s->n++]));
	return tile(s, data, total);
}

int safetensors_parse(struct safetensors *s, const char *path, const void *bytes, size_t n)
{
	int code;

	*s = (struct safetensors){ .path = cg_memory(NULL, strlen(path) + 1) };
	if (!s->path)
		return CG_NO_MEMORY;
	strcpy(s->path, path);
	code = parse(s, bytes, n);
	if (code)
		safetensors_close(s);
	return code;
}

static int map_file(int fd, const char *path, void **at, size_t *n)
{
	struct stat there;
	void *map;

	if (fstat(fd, &there))
		return WRONG("%s: %s", path, strerror(errno));
	if (S_ISDIR(there.st_mode))
		return WRONG("%s: is a directory", path);
	if (!S_ISREG(there.st_mode))
		return WRONG("%s: is not a regular file; safetensors are mapped, so write it to one first", path);
	if ((uint64_t)there.st_size > PTRDIFF_MAX)
		return WRONG("%s: the file is larger than this machine's addresses can reach", path);
	*n = (size_t)there.st_size;
	if (!*n)
		return WRONG("%s: is empty", path);
	map = mmap(NULL, *n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return WRONG("%s: mmap of %zu bytes: %s", path, *n, strerror(errno));
	*at = map;
	return CG_OK;
}

int safetensors_open(struct safetensors *s, const char *path)
{
	int fd, code;
	struct claim *claim = NULL;
	size_t n = 0;
	void *at = NULL;

	CG_TRY(file_check_name(path, "read"));
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);      /* opening a pipe must not wait for its writer */
	if (fd < 0)
		return WRONG("%s: %s", path, strerror(errno));
	code = map_file(fd, path, &at, &n);
	if (!code)
		code = claim_input(fd, path, &claim);
	close(fd);
	if (!code)
		code = safetensors_parse(s, path, at, n);
	if (code) {
		claim_end(claim);
		if (at)
			munmap(at, n);
		return code;
	}
	s->claim = claim;
	s->map = at;
	s->mapped = n;
	return CG_OK;
}

void safetensors_close(struct safetensors *s)
{
	cg_memory(s->tensors, 0);
	json_decref(s->header);
	cg_memory(s->path, 0);
	claim_end(s->claim);
	if (s->map)
		munmap(s->map, s->mapped);
	*s = (struct safetensors){ 0 };
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
	for (size_t k = 0; k < s->n; k++)
		if (!strcmp(s->tensors[k].name, name))
			return &s->tensors[k];
	return NULL;
}

const char *safetensors_metadata(const struct safetensors *s, const char *key)
{
	return json_string_value(json_object_get(s->metadata, key));
}

/* ---- writing ---- */

/* The bytes of an element of a tensor; the name of a type of integers, such as I32, has the number of bits. */
static size_t width(const struct safetensors_tensor *t)
{
	return t->cg < 0 ? strtoul(t->dtype + 1, NULL, 10) / 8 : cg_dtype_bytes(t->cg);
}

/* Orders tensors with wide elements first, so that all elements are aligned; then by name, so that the same tensors give the same file. */
static int by_width(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;
	size_t wide = width(x), other = width(y);

	return wide != other ? (wide < other) - (wide > other) : strcmp(x->name, y->name);
}

static json_t *entry_of(const struct safetensors_tensor *t, uint64_t at)
{
	return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->cg < 0 ? t->dtype : safetensors_code(t->cg), "shape",
	                 print_numbers(t->shape, t->rank), "data_offsets", (json_int_t)at,
	                 (json_int_t)(at + t->bytes));
}

/* The header of a file as JSON text, which the caller frees by cg_memory; NULL: no memory. */
static char *header_of(const struct safetensors_tensor *tensors, size_t n, json_t *metadata)
{
	unsigned lost = print_json_lost();
	json_t *all = json_object();
	uint64_t at = 0;
	char *text = NULL;

	if (json_object_set(all, "__metadata__", metadata))
		goto out;
	for (size_t k = 0; k < n; at += tensors[k++].bytes)
		if (json_object_set_new(all, tensors[k].name, entry_of(&tensors[k], at)))
			goto out;
	text = json_dumps(all, JSON_COMPACT);
out:
	json_decref(all);
	return print_json_lost() == lost ? text : cg_memory(text, 0);
}

int safetensors_begin(struct file *f, struct safetensors_tensor *tensors, size_t n, json_t *metadata)
{
	static const char blanks[8] = "       ";
	uint64_t length, padded;
	char *text;
	int code;

	if (n)
		qsort(tensors, n, sizeof *tensors, by_width);
	text = header_of(tensors, n, metadata);
	if (!text)
		return cg_fail(CG_NO_MEMORY, "%s: no memory for the header", f->path);
	length = strlen(text);
	padded = (length + 7) / 8 * 8;
	code = file_begin(f);
	if (!code)
		code = file_put(f, &padded, 8);
	if (!code)
		code = file_put(f, text, (size_t)length);
	if (!code)
		code = file_put(f, blanks, (size_t)(padded - length));
	cg_memory(text, 0);
	return code;
}

int safetensors_write(struct file *f, struct safetensors_tensor *tensors, size_t n, json_t *metadata)
{
	int code = safetensors_begin(f, tensors, n, metadata);

	for (size_t k = 0; k < n && !code; k++)
		code = file_put(f, tensors[k].data, tensors[k].bytes);
	if (!code)
		code = file_end(f);
	if (code)
		file_discard(f);
	return code;
}
