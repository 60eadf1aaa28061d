/* buffer.c - memory of a WebGPU device, and the way into it and out of it.
 *
 * WebGPU copies whole words of 4 bytes. A buffer is made in whole units, so what stands behind its last element belongs to
 * nobody, and only a write that begins or ends inside a word must read first. */
#include "backend/webgpu/device.h"

enum { WORD = 4, CHUNK = 64 << 20 };

static gpu_device *device_of(const an_buffer *b)
{
    return gpu_of(((const an_buffer_base *)b)->device);
}

an_status gpu_raw_buffer(gpu_device *d, uint64_t usage, uint64_t nbytes, const char *what, wg_buffer *out)
{
    const wg_buffer_desc desc = {.label = gpu_string("anneal"), .usage = usage, .nbytes = nbytes};
    char text[GPU_TEXT_MAX];
    uint32_t error = 0;
    an_status st = gpu_check(d);
    *out = NULL;
    if (st) return st;
    if (nbytes > d->limits.buffer_nbytes)
        return an_fail(d->base.ctx, AN_ERR_LIMIT, "webgpu: %s of %llu bytes is more than this adapter allows in one buffer, %llu", what,
                       (unsigned long long)nbytes, (unsigned long long)d->limits.buffer_nbytes);
    if (d->weather.memory_nbytes && d->nbytes + nbytes > d->weather.memory_nbytes) {
        snprintf(text, sizeof text, "no memory, as the test asked");
        error = WG_ERROR_MEMORY;
    } else {
        gpu_scope_begin(d);
        *out = d->host.lib.api.DeviceCreateBuffer(d->handle, &desc);
        st = gpu_scope_end(d, &error, text);
    }
    if (!st && (error || !*out)) {
        const bool memory = error == WG_ERROR_MEMORY || !*out;
        st = gpu_check(d); /* a lost device explains more */
        if (!st)
            st = an_fail(d->base.ctx, memory ? AN_ERR_NOMEM : AN_ERR_DEVICE,
                         memory ? "webgpu: no memory on the device for %s of %llu bytes, beside %llu in use; a smaller batch or model needs less "
                                  "(the driver says: %.300s)"
                                : "webgpu: %s of %llu bytes, beside %llu in use: %.300s",
                         what, (unsigned long long)nbytes, (unsigned long long)d->nbytes, text);
    }
    if (st && *out) {
        d->host.lib.api.BufferRelease(*out);
        *out = NULL;
    }
    return st;
}

an_status gpu_buffer_create(an_device *dev, size_t nbytes, an_buffer **out)
{
    gpu_device *d = gpu_of(dev);
    size_t size = 0;
    if (!an_size_add(nbytes, GPU_UNIT - 1, &size)) return an_fail(d->base.ctx, AN_ERR_LIMIT, "webgpu: a buffer of %zu bytes is too large", nbytes);
    size = size / GPU_UNIT * GPU_UNIT;
    gpu_buffer *b = an_mem_zalloc(d->base.ctx, sizeof *b);
    if (!b) return AN_ERR_NOMEM;
    *b = (gpu_buffer){.base = {dev, nbytes}, .serial = ++d->serials, .size = size ? size : GPU_UNIT};
    const an_status st = gpu_raw_buffer(d, WG_USE_STORAGE | WG_USE_COPY_SRC | WG_USE_COPY_DST, b->size, "a buffer", &b->handle);
    if (st) {
        an_mem_free(d->base.ctx, b, sizeof *b);
        return st;
    }
    d->nbytes += b->size;
    *out = (an_buffer *)b;
    return AN_OK;
}

void gpu_buffer_destroy(an_buffer *buf)
{
    if (!buf) return;
    gpu_buffer *b = (gpu_buffer *)buf;
    gpu_device *d = device_of(buf);
    if (d->npending) (void)gpu_submit(b->base.device); /* it may use the buffer */
    for (gpu_program *p = d->programs; p; p = p->next) gpu_groups_drop(p, b->serial);
    d->host.lib.api.BufferDestroy(b->handle);
    d->host.lib.api.BufferRelease(b->handle);
    d->nbytes -= b->size;
    an_mem_free(d->base.ctx, b, sizeof *b);
}

static an_status check_span(const gpu_buffer *b, size_t offset, size_t nbytes)
{
    if (offset <= b->base.nbytes && nbytes <= b->base.nbytes - offset) return AN_OK;
    return an_fail(device_of((const an_buffer *)b)->base.ctx, AN_ERR_ARG, "webgpu: bytes %zu..%zu of a buffer that has %zu", offset,
                   offset + nbytes, b->base.nbytes);
}

/* The word at offset, with some bytes of it replaced; it is read first unless what is not replaced belongs to nobody. */
static an_status write_in_word(gpu_buffer *b, size_t offset, size_t from, const unsigned char *src, size_t n)
{
    gpu_device *d = device_of((an_buffer *)b);
    unsigned char word[WORD] = {0};
    if (from || offset + n < b->base.nbytes) {
        const an_status st = gpu_fetch(d, b->handle, offset, word, WORD);
        if (st) return st;
    }
    memcpy(word + from, src, n);
    d->host.lib.api.QueueWriteBuffer(d->queue, b->handle, offset, word, WORD);
    return AN_OK;
}

an_status gpu_write(an_buffer *dst, size_t offset, const void *src, size_t nbytes)
{
    gpu_buffer *b = (gpu_buffer *)dst;
    gpu_device *d = device_of(dst);
    const unsigned char *from = src;
    an_status st = check_span(b, offset, nbytes);
    if (!st) st = gpu_submit(b->base.device); /* what is recorded comes before it */
    if (!st) st = gpu_check(d);
    if (st || !nbytes) return st;
    if (offset % WORD) {
        const size_t in = offset % WORD, n = nbytes < WORD - in ? nbytes : WORD - in;
        st = write_in_word(b, offset - in, in, from, n);
        from += n, offset += n, nbytes -= n;
    }
    while (nbytes >= WORD && !st) {
        const size_t n = (nbytes < CHUNK ? nbytes : CHUNK) / WORD * WORD;
        d->host.lib.api.QueueWriteBuffer(d->queue, b->handle, offset, from, n);
        from += n, offset += n, nbytes -= n;
        st = gpu_check(d);
    }
    if (!st && nbytes) st = write_in_word(b, offset, 0, from, nbytes);
    return st ? st : gpu_check(d);
}

/* --- reading --------------------------------------------------------------------------------------- */

static void on_map(uint32_t status, wg_string message, void *user1, void *user2)
{
    (void)user2;
    gpu_answer_give(user1, status, 0, NULL, message);
}

static an_status staging_for(gpu_device *d, size_t nbytes)
{
    size_t size = 4096;
    while (size < nbytes) size *= 2;
    if (d->staging_size >= size) return AN_OK;
    if (d->staging) {
        d->host.lib.api.BufferDestroy(d->staging);
        d->host.lib.api.BufferRelease(d->staging);
        d->staging = NULL;
        d->staging_size = 0;
    }
    const an_status st = gpu_raw_buffer(d, WG_USE_MAP_READ | WG_USE_COPY_DST, size, "a buffer for reading", &d->staging);
    if (!st) d->staging_size = size;
    return st;
}

static an_status fetch_chunk(gpu_device *d, wg_buffer src, uint64_t offset, void *dst, size_t nbytes)
{
    const wg_api *api = &d->host.lib.api;
    an_status st = staging_for(d, nbytes);
    if (!st) st = gpu_encoder(d);
    if (st) return st;
    api->CommandEncoderCopyBufferToBuffer(d->encoder, src, offset, d->staging, 0, nbytes);
    st = gpu_submit((an_device *)d);
    if (st) return st;
    gpu_answer *a = gpu_answer_new(&d->host);
    if (!a) return AN_ERR_NOMEM;
    (void)api->BufferMapAsync(d->staging, WG_MAP_READ, 0, nbytes, (wg_done_call){NULL, WG_CALL_IN_PROCESS_EVENTS, on_map, a, NULL});
    if (d->weather.deaf || !gpu_answer_wait(&d->host, a)) return gpu_gone(d, "reading a buffer");
    const void *data = a->status == WG_SUCCESS ? api->BufferGetConstMappedRange(d->staging, 0, nbytes) : NULL;
    st = gpu_check(d); /* of a kernel that ran before, too */
    if (!st && data) memcpy(dst, data, nbytes);
    if (!st && !data) st = an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: a buffer could not be read: %.400s", a->text);
    if (data) api->BufferUnmap(d->staging);
    gpu_answer_done(&d->host, a);
    return st;
}

an_status gpu_fetch(gpu_device *d, wg_buffer src, uint64_t offset, void *dst, size_t nbytes)
{
    an_status st = gpu_check(d);
    for (size_t at = 0; at < nbytes && !st;) {
        const size_t n = nbytes - at < CHUNK ? nbytes - at : CHUNK;
        st = fetch_chunk(d, src, offset + at, (unsigned char *)dst + at, n);
        at += n;
    }
    return st;
}

an_status gpu_read(an_buffer *src, size_t offset, void *dst, size_t nbytes)
{
    gpu_buffer *b = (gpu_buffer *)src;
    gpu_device *d = device_of(src);
    an_status st = check_span(b, offset, nbytes);
    if (st || !nbytes) return st ? st : gpu_submit(b->base.device);
    const size_t in = offset % WORD, body = in ? 0 : nbytes / WORD * WORD;
    if (body) st = gpu_fetch(d, b->handle, offset, dst, body);
    /* The rest through a few words of our own, so that nothing is written past dst. */
    for (size_t at = body; at < nbytes && !st;) {
        unsigned char words[1024];
        const size_t skip = (offset + at) % WORD;
        const size_t n = nbytes - at < sizeof words - skip ? nbytes - at : sizeof words - skip;
        st = gpu_fetch(d, b->handle, offset + at - skip, words, (skip + n + WORD - 1) / WORD * WORD);
        if (!st) memcpy((unsigned char *)dst + at, words + skip, n);
        at += n;
    }
    return st;
}
