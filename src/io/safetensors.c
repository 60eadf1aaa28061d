/* safetensors.c - files of named arrays: eight bytes of length, a header in JSON, the arrays.
 *
 * The whole file is read before anything in it is believed, so nothing can change under us, and every number of the header is
 * checked against what is there. jansson refuses bad UTF-8, duplicate keys and numbers that overflow. */
#include <anneal/io.h>

#include "base/base.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADER_MAX = 100000000 }; /* bytes, as the format has it */

static const struct {
    const char *name;
    an_dtype dtype;
} dtypes[] = {
    {"BOOL", AN_BOOL}, {"U8", AN_U8},   {"I8", AN_I8},   {"F8_E5M2", AN_F8E5M2}, {"F8_E4M3", AN_F8E4M3},
    {"I16", AN_I16},   {"U16", AN_U16}, {"F16", AN_F16}, {"BF16", AN_BF16},      {"I32", AN_I32},
    {"U32", AN_U32},   {"F32", AN_F32}, {"F64", AN_F64}, {"I64", AN_I64},        {"U64", AN_U64},
};

typedef struct item {
    an_array_view view;
    int64_t dims[AN_SAFETENSORS_RANK_MAX];
    uint64_t begin, end;
} item;

struct an_safetensors {
    an_ctx *ctx;
    an_bytes bytes;
    json_t *header; /* names and metadata live here */
    item *items;
    size_t n;
};

/* --- reading ------------------------------------------------------------------------------------- */

static an_status bad(an_ctx *ctx, const char *path, const char *name, const char *what)
{
    return an_fail(ctx, AN_ERR_FORMAT, "%s: is no sound safetensors file: %s%s%s%s", path, name ? "array '" : "", name ? name : "",
                   name ? "' " : "", what);
}

/* A whole number from 0 up; -1 if it is none. */
static int64_t whole(const json_t *j)
{
    return json_is_integer(j) && json_integer_value(j) >= 0 ? (int64_t)json_integer_value(j) : -1;
}

static an_status read_dtype(an_ctx *ctx, const char *path, const char *name, const json_t *j, an_dtype *out)
{
    if (!json_is_string(j)) return bad(ctx, path, name, "has no dtype");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, json_string_value(j)) != 0) continue;
        *out = dtypes[i].dtype;
        return AN_OK;
    }
    return an_fail(ctx, AN_ERR_UNSUPPORTED, "%s: array '%s' is of dtype '%s', which has no counterpart here", path, name,
                   json_string_value(j));
}

/* One array of the header. */
static an_status read_item(an_ctx *ctx, const char *path, const char *name, json_t *info, item *x)
{
    const json_t *shape = json_object_get(info, "shape"), *offsets = json_object_get(info, "data_offsets");
    if (!json_is_object(info)) return bad(ctx, path, name, "is not described by an object");
    an_status st = read_dtype(ctx, path, name, json_object_get(info, "dtype"), &x->view.dtype);
    if (st) return st;
    if (json_object_size(info) != 3 || !json_is_array(shape) || !json_is_array(offsets) || json_array_size(offsets) != 2)
        return bad(ctx, path, name, "has not just a dtype, a shape and two data_offsets");
    if (json_array_size(shape) > AN_SAFETENSORS_RANK_MAX) return bad(ctx, path, name, "has more than 32 axes");
    const int64_t begin = whole(json_array_get(offsets, 0)), end = whole(json_array_get(offsets, 1));
    if (begin < 0 || end < begin) return bad(ctx, path, name, "has data_offsets that are no range");
    uint64_t nbytes = an_dtype_nbytes(x->view.dtype);
    x->view.rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < x->view.rank; i++) {
        const int64_t dim = whole(json_array_get(shape, i));
        if (dim < 0) return bad(ctx, path, name, "has a shape that is not of whole numbers");
        if (dim > 0 && nbytes > UINT64_MAX / (uint64_t)dim) return bad(ctx, path, name, "has a shape whose size overflows");
        nbytes *= (uint64_t)dim;
        x->dims[i] = dim;
    }
    if (nbytes != (uint64_t)(end - begin)) return bad(ctx, path, name, "has data_offsets that are not its shape's size apart");
    x->begin = (uint64_t)begin;
    x->end = (uint64_t)end;
    x->view.name = name;
    x->view.nbytes = (size_t)nbytes;
    return AN_OK;
}

static int by_place(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return strcmp(x->view.name, y->view.name);
}

static an_status check_metadata(an_ctx *ctx, const char *path, json_t *meta)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(meta)) return bad(ctx, path, NULL, "its __metadata__ is no object");
    json_object_foreach(meta, key, value)
        if (!json_is_string(value)) return bad(ctx, path, NULL, "its __metadata__ has a value that is no text");
    return AN_OK;
}

/* All arrays, against nbytes of data that begin at data. */
static an_status read_items(an_safetensors *f, const char *path, const uint8_t *data, uint64_t nbytes)
{
    const char *name = NULL;
    json_t *info = NULL;
    uint64_t at = 0;
    const size_t most = json_object_size(f->header);
    f->items = an_mem_zalloc(f->ctx, most * sizeof *f->items);
    if (!f->items) return AN_ERR_NOMEM;
    json_object_foreach(f->header, name, info) {
        const an_status st = strcmp(name, "__metadata__") == 0 ? check_metadata(f->ctx, path, info)
                                                               : read_item(f->ctx, path, name, info, &f->items[f->n]);
        if (st) return st;
        if (strcmp(name, "__metadata__") != 0) f->n++;
    }
    qsort(f->items, f->n, sizeof *f->items, by_place);
    for (size_t i = 0; i < f->n; at = f->items[i++].end)
        if (f->items[i].begin != at) return bad(f->ctx, path, f->items[i].view.name, "does not begin where the one before it ends");
    if (at != nbytes)
        return an_fail(f->ctx, AN_ERR_FORMAT, "%s: is no sound safetensors file: its arrays end at byte %llu of the data, and there are %llu", path,
                       (unsigned long long)at, (unsigned long long)nbytes);
    for (size_t i = 0; i < f->n; i++) f->items[i].view.data = data + f->items[i].begin;
    qsort(f->items, f->n, sizeof *f->items, by_name);
    for (size_t i = 0; i < f->n; i++) f->items[i].view.dims = f->items[i].dims;
    return AN_OK;
}

/* No number of a header is negative; "-0" would be read as 0. */
static bool has_minus(const char *text, size_t n)
{
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && text[i] == '-')
            return true;
    }
    return false;
}

static an_status parse(an_safetensors *f, const char *path)
{
    uint64_t length = 0;
    json_error_t error;
    if (f->bytes.nbytes < 8) return bad(f->ctx, path, NULL, "it is shorter than the eight bytes of its header's length");
    for (int i = 7; i >= 0; i--) length = length << 8 | f->bytes.data[i];
    if (length > HEADER_MAX || length > f->bytes.nbytes - 8) return bad(f->ctx, path, NULL, "its header is said to be longer than it can be");
    const char *text = (const char *)f->bytes.data + 8;
    if (length == 0 || text[0] != '{') return bad(f->ctx, path, NULL, "its header does not begin with '{'");
    f->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(f->header)) return bad(f->ctx, path, NULL, f->header ? "its header is no object" : error.text);
    if (has_minus(text, (size_t)length)) return bad(f->ctx, path, NULL, "its header has a negative number");
    return read_items(f, path, f->bytes.data + 8 + length, f->bytes.nbytes - 8 - length);
}

an_status an_safetensors_open(an_ctx *ctx, const char *path, size_t nbytes_max, an_safetensors **out)
{
    an_safetensors *f = an_mem_zalloc(ctx, sizeof *f);
    if (!f) return AN_ERR_NOMEM;
    f->ctx = ctx;
    an_status st = an_file_read(ctx, path, nbytes_max ? nbytes_max : (size_t)16 << 30, &f->bytes);
    if (!st) st = parse(f, path);
    if (st)
        an_safetensors_close(f);
    else
        *out = f;
    return st;
}

void an_safetensors_close(an_safetensors *f)
{
    if (!f) return;
    if (f->items) an_mem_free(f->ctx, f->items, json_object_size(f->header) * sizeof *f->items);
    json_decref(f->header);
    an_bytes_fini(&f->bytes);
    an_mem_free(f->ctx, f, sizeof *f);
}

size_t an_safetensors_count(const an_safetensors *f)
{
    return f ? f->n : 0;
}

an_array_view an_safetensors_get(const an_safetensors *f, size_t i)
{
    const an_array_view none = {0};
    return f && i < f->n ? f->items[i].view : none;
}

bool an_safetensors_find(const an_safetensors *f, const char *name, an_array_view *out)
{
    size_t low = 0, high = an_safetensors_count(f);
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const int c = strcmp(f->items[mid].view.name, name);
        if (c == 0) {
            *out = f->items[mid].view;
            return true;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

const char *an_safetensors_metadata(const an_safetensors *f, const char *key)
{
    return f ? json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key)) : NULL;
}

/* --- writing ------------------------------------------------------------------------------------- */

static an_status check_array(an_ctx *ctx, const char *path, const an_array_view *a, const char **dtype)
{
    uint64_t nbytes = an_dtype_nbytes(a->dtype);
    for (uint32_t i = 0; i < a->rank; i++) nbytes *= (uint64_t)a->dims[i];
    *dtype = NULL;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == a->dtype) *dtype = dtypes[i].name;
    if (*dtype && nbytes == a->nbytes) return AN_OK;
    return an_fail(ctx, AN_ERR_ARG, "%s: array '%s' of dtype %s: its shape takes %llu bytes, and %zu were given", path, a->name,
                   an_dtype_name(a->dtype), (unsigned long long)nbytes, a->nbytes);
}

/* Arrays of one element size, from offset on, into the header. */
static an_status describe(an_ctx *ctx, const char *path, const an_array_view *arrays, size_t n, size_t size, json_t *header,
                          uint64_t *offset)
{
    for (size_t i = 0; i < n; i++) {
        const an_array_view *a = &arrays[i];
        const char *dtype = NULL;
        if (an_dtype_nbytes(a->dtype) != size) continue;
        const an_status st = check_array(ctx, path, a, &dtype);
        if (st) return st;
        json_t *shape = json_array();
        for (uint32_t k = 0; k < a->rank; k++) json_array_append_new(shape, json_integer(a->dims[k]));
        json_t *info = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)*offset,
                                 (json_int_t)(*offset + a->nbytes));
        const bool twice = json_object_get(header, a->name) != NULL;
        if (twice) json_decref(info);
        if (twice || json_object_set_new(header, a->name, info)) /* takes info, also where it fails */
            return an_fail(ctx, AN_ERR_ARG, "%s: the name '%s' stands twice or is no UTF-8", path, a->name);
        *offset += a->nbytes;
    }
    return AN_OK;
}

static an_status make_header(an_ctx *ctx, const char *path, const an_array_view *arrays, size_t n, const an_metadata *metadata,
                             size_t nmetadata, json_t *header)
{
    uint64_t offset = 0;
    json_t *meta = json_object();
    for (size_t i = 0; i < nmetadata; i++) {
        if (json_object_set_new(meta, metadata[i].key, json_string(metadata[i].value)) == 0) continue;
        json_decref(meta);
        return an_fail(ctx, AN_ERR_ARG, "%s: metadata '%s' is no UTF-8", path, metadata[i].key);
    }
    if (nmetadata)
        json_object_set_new(header, "__metadata__", meta);
    else
        json_decref(meta);
    for (size_t size = 8; size >= 1; size /= 2) {
        const an_status st = describe(ctx, path, arrays, n, size, header, &offset);
        if (st) return st;
    }
    return AN_OK;
}

static an_status write_all(an_ctx *ctx, const char *path, const char *text, const an_array_view *arrays, size_t n)
{
    an_atomic_file *f = NULL;
    uint8_t length[8];
    const size_t used = strlen(text), padded = (used + 7) / 8 * 8;
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    an_status st = an_atomic_open(ctx, path, &f);
    if (st) return st;
    st = an_atomic_write(f, length, sizeof length);
    if (!st) st = an_atomic_write(f, text, used);
    if (!st) st = an_atomic_write(f, "       ", padded - used);
    for (size_t size = 8; size >= 1; size /= 2)
        for (size_t i = 0; i < n && !st; i++)
            if (an_dtype_nbytes(arrays[i].dtype) == size) st = an_atomic_write(f, arrays[i].data, arrays[i].nbytes);
    if (!st) return an_atomic_commit(f);
    an_atomic_abort(f);
    return st;
}

an_status an_safetensors_write(an_ctx *ctx, const char *path, const an_array_view *arrays, size_t n, const an_metadata *metadata,
                               size_t nmetadata)
{
    json_t *header = json_object();
    char *text = NULL;
    an_status st = header ? make_header(ctx, path, arrays, n, metadata, nmetadata, header) : AN_ERR_NOMEM;
    if (!st) {
        text = json_dumps(header, JSON_COMPACT);
        st = text ? write_all(ctx, path, text, arrays, n) : an_fail(ctx, AN_ERR_NOMEM, "%s: no memory for its header", path);
    }
    free(text);
    json_decref(header);
    return st;
}
