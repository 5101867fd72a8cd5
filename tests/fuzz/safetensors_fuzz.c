/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of safetensors files: whatever the bytes, the reader rejects them with a message, or every tensor that the reader
 * reports lies inside these bytes. Also fuzzes the search for a network's weights among the tensors, for each format: the search rejects
 * the tensors with a message, or the weights convert to the library's format. By itself this file is libFuzzer's entry. With FUZZ_REPLAY
 * and replay.c it is a program that needs no libFuzzer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/convert/network.h"
#include "command/output.h"
#include "command/safetensors.h"
#include "runtime/op/op.h"
#include "runtime/core/core.h"

#define MUST(truth) do { if (!(truth)) wrong(__LINE__, #truth); } while (0)

static void wrong(int line, const char *truth)
{
	fprintf(stderr, "safetensors_fuzz.c:%d: not so: %s (message: %s)\n", line, truth, cg_message());
	abort();
}

static volatile unsigned char seen;

static void check(const struct safetensors *s, const unsigned char *bytes, size_t n)
{
	size_t total = 0;

	for (size_t k = 0; k < s->n; k++) {
		const struct safetensors_tensor *t = &s->tensors[k];
		uint64_t size = t->cg < 0 ? 0 : cg_dtype_bytes(t->cg);

		MUST(t->data >= bytes && t->bytes <= n && (size_t)(t->data - bytes) <= n - t->bytes);
		MUST(t->rank >= 0 && t->rank <= SAFETENSORS_RANK);
		for (int d = 0; d < t->rank; d++) {
			MUST(t->shape[d] >= 0);
			size *= (uint64_t)t->shape[d];
		}
		MUST(t->cg < 0 || size == t->bytes);
		MUST(!k || t->data == s->tensors[k - 1].data + s->tensors[k - 1].bytes);
		if (t->bytes)
			seen = (unsigned char)(t->data[0] ^ t->data[t->bytes - 1]);
		MUST(safetensors_dtype(t));
		total += t->bytes;
	}
	MUST(!s->n || s->tensors[s->n - 1].data + s->tensors[s->n - 1].bytes == bytes + n);
	MUST(total <= n);
	if (s->n && s->n < 100)
		MUST(safetensors_find(s, s->tensors[s->n / 2].name) == &s->tensors[s->n / 2]);
	MUST(!safetensors_find(s, "__metadata__"));
	safetensors_metadata(s, "op");
}

/* Converts all tensors of a network's weights into a params buffer of the library's format, and expects that nothing is lost. */
static void carry(const struct network *n)
{
	struct cg_layout ours;
	struct cg_losses losses;
	struct cg_conversion move = { .from = { &n->layout, n->dtype, 0, n->at }, .to = { &ours, n->dtype, 0, NULL }, .bias = n->bias };
	unsigned char *params;

	MUST(!cg_layout_open(&ours, cg_formats, &n->config, 0));
	MUST(ours.network.params > 0 && ours.network.params < 1 << 20);
	params = malloc((size_t)ours.network.params * cg_dtype_bytes(n->dtype));
	MUST(params);
	move.to.at = &params;
	cg_count_losses(&move, 0, &losses);
	MUST(!losses.biases && !losses.vectors && !losses.rounded);
	cg_convert_into(&move, 0);
	seen = params[0];
	free(params);
}

static void find(const unsigned char *bytes, size_t n)
{
	for (const struct cg_format *format = cg_formats; format->name; format++) {
		struct network network;
		int code = network_parse(&network, format, "input", bytes, n);

		if (!code)
			code = network_find(&network, bytes[n - 1] & 1);
		if (!code)
			carry(&network);
		else
			MUST(cg_message()[0]);
		network_close(&network);
	}
}

/* libFuzzer's entry.  The bytes are copied, so that a sanitizer sees a read beyond them. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	unsigned char *bytes = malloc(n ? n : 1);
	struct safetensors s;
	int code;

	if (!bytes)
		return 0;
	memcpy(bytes, data, n);
	code = safetensors_parse(&s, "input", bytes, n);
	if (!code) {
		check(&s, bytes, n);
		safetensors_close(&s);
		find(bytes, n);
	} else {
		MUST(code == CG_FILE || code == CG_NO_MEMORY);
		MUST(cg_message()[0]);
	}
	free(bytes);
	return 0;
}

#ifdef FUZZ_REPLAY
#include "tests/fuzz/replay.h"

/* Adds as a seed a file with this header and `data` bytes of data. */
static void add_file(const char *header, size_t data)
{
	static unsigned char file[REPLAY_MOST];
	size_t length = strlen(header);

	file[0] = (unsigned char)length;
	file[1] = (unsigned char)(length >> 8);
	memcpy(file + 8, header, length);
	for (size_t k = 0; k < data; k++)
		file[8 + length + k] = (unsigned char)k;
	replay_add_seed(file, 8 + length + data);
}

static void built_in(void)
{
	add_file("{\"__metadata__\":{\"op\":\"GRUBlockCell\",\"forget_bias\":\"1\"},"
	         "\"x\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
	         "\"none\":{\"dtype\":\"BF16\",\"shape\":[0,3],\"data_offsets\":[8,8]},"
	         "\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[8,12]},"
	         "\"odd\":{\"dtype\":\"X9\",\"shape\":[],\"data_offsets\":[12,15]}}", 15);
	/* The next seeds are files with weights in the formats of ONNX, PyTorch and TensorFlow, and in the library's own. */
	add_file("{\"W\":{\"dtype\":\"F16\",\"shape\":[2,4,3],\"data_offsets\":[0,48]},"
	         "\"R\":{\"dtype\":\"F16\",\"shape\":[2,4,1],\"data_offsets\":[48,64]},"
	         "\"P\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[64,76]}}", 76);
	add_file("{\"__metadata__\":{\"rnn_mode\":\"gru\",\"num_layers\":\"1\",\"bias\":\"input\"},"
	         "\"weight_ih_l0\":{\"dtype\":\"F16\",\"shape\":[3,2],\"data_offsets\":[0,12]},"
	         "\"weight_hh_l0\":{\"dtype\":\"F16\",\"shape\":[3,1],\"data_offsets\":[12,18]},"
	         "\"bias_ih_l0\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[18,24]},"
	         "\"bias_hh_l0\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,30]}}", 30);
	add_file("{\"__metadata__\":{\"cell_clip\":\"3\",\"use_peephole\":\"true\",\"names\":\"\"},"
	         "\"w\":{\"dtype\":\"F16\",\"shape\":[3,4],\"data_offsets\":[0,24]},"
	         "\"b\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[24,32]},"
	         "\"wci\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[32,34]},"
	         "\"wcf\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[34,36]},"
	         "\"wco\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[36,38]}}", 38);
	add_file("{\"__metadata__\":{\"cell\":\"rnn_relu\",\"num_units\":\"1\",\"input_size\":\"1\",\"direction\":\"bidirectional\"},"
	         "\"params\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[0,16]}}", 16);
}

/* Changes a file, mostly in ways that matter in its header: signs, digits, brackets, whole words, lengths, removed and repeated parts. */
static size_t mutate(unsigned char *b, size_t n)
{
	static const char *const words[] = {
		"9223372036854775807", "18446744073709551616", "4294967296", "-1", "1e3", "0.5", "null", "true",
		"[", "]", "{", "}", "\"", ",", ":", "[[[[[[[[", "\\u0000", "\\ud800", "\xff\xfe",
		"\"F64\"", "\"U8\"", "\"F4\"", "__metadata__", "data_offsets",
		"\"x\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},",
	};
	size_t at = n ? replay_draw(n) : 0, length;
	const char *word;

	switch (replay_draw(8)) {
	case 0:
		if (n)
			b[at] ^= (unsigned char)(1u << replay_draw(8));
		break;
	case 1:
		if (n)
			b[at] = (unsigned char)replay_draw(256);
		break;
	case 2:
		if (n)
			b[at] = (unsigned char)"0123456789[]{},:\" "[replay_draw(18)];
		break;
	case 3:
		return at;
	case 4:
		if (n >= 8)
			b[replay_draw(8)] = (unsigned char)(replay_draw(2) ? replay_draw(256) : 0);
		break;
	case 5:                                  /* inserts a word, and corrects the header's length */
	case 6:
		word = words[replay_draw(sizeof words / sizeof *words)];
		length = strlen(word);
		if (n < 8 || n + length > REPLAY_MOST)
			break;
		n = replay_insert(b, n, 8 + replay_draw(n - 7), word, length);
		length += b[0] + 256u * b[1];
		b[0] = (unsigned char)length;
		b[1] = (unsigned char)(length >> 8);
		break;
	default:                                 /* removes or repeats a part */
		length = n ? replay_draw(n - at < 64 ? n - at : 64) : 0;
		return replay_draw(2) ? replay_cut(b, n, at, length) : replay_insert(b, n, at, b + at, length);
	}
	return n;
}

static const char *begin(void)
{
	print_json_memory();
	built_in();
	return NULL;
}

static void refuse(int on)
{
	cg_memory_fail(!on || replay_draw(8) ? 0 : 1 + replay_draw(60));
}

const struct replay replay = { "safetensors", "files", 20000, 4, begin, mutate, refuse, NULL, NULL };

#endif
