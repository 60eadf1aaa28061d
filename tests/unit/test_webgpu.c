/* test_webgpu.c - the runtime of the webgpu backend, on whatever adapter there is: memory, launches of shaders written by hand,
 * and bad weather: no library, no adapter, refused shaders, lost devices, no memory, limits, no answer.
 * A machine without a library or an adapter skips, with a line, all cases that need one. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* setenv */
#endif
#include "an_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef AN_HAVE_WEBGPU
#include "backend/backends.h"
#include "backend/webgpu/device.h"
#include "codegen_kernels.h"
#include "ir/uop.h"
#include "runtime/plan.h"
#include "search/search.h"
#include <anneal/device.h>
#include <anneal/nn.h>
#include <anneal/settings.h>
#include <anneal/tensor.h>
#include <anneal/webgpu.h>

/* The device of the case's context; NULL after a line that says why not. */
static gpu_device *device(an_test *t)
{
    an_device *dev = NULL;
    if (an_device_get(t->ctx, "webgpu", &dev) == AN_OK) return gpu_of(dev);
    if (getenv("AN_NEEDS_WEBGPU")) an_test_fail(__FILE__, __LINE__, "%s", an_ctx_error(t->ctx));
    printf("skipped: %s\n", an_ctx_error(t->ctx));
    an_ctx_clear_error(t->ctx);
    return NULL;
}

static unsigned char byte(size_t i)
{
    return (unsigned char)(an_mix64(7, i) >> 40);
}

/* --- memory -------------------------------------------------------------------------------------------------------- */

static void bytes_come_back_from_any_offset(an_test *t)
{
    enum { N = 1030 };
    static const size_t spans[][2] = {{0, N}, {1, 1}, {3, 6}, {1026, 4}, {1029, 1}, {512, 0}, {5, 1025}, {4, 8}, {2, 1}};
    gpu_device *d = device(t);
    unsigned char want[N], got[N + 2];
    an_buffer *b = NULL;
    if (!d) return;
    CHECK_OK(t, gpu_buffer_create((an_device *)d, N, &b));
    memset(want, 0, N);
    CHECK_OK(t, gpu_read(b, 0, got, N));
    CHECK(t, memcmp(got, want, N) == 0); /* zeros, to begin with */
    for (size_t s = 0; s < sizeof spans / sizeof spans[0]; s++) {
        const size_t at = spans[s][0], n = spans[s][1];
        for (size_t i = 0; i < n; i++) want[at + i] = byte(s * N + i);
        CHECK_OK(t, gpu_write(b, at, want + at, n));
        memset(got, 0xee, sizeof got);
        CHECK_OK(t, gpu_read(b, at, got + 1, n));
        CHECK(t, memcmp(got + 1, want + at, n) == 0);
        CHECK(t, got[0] == 0xee && got[n + 1] == 0xee);
        CHECK_OK(t, gpu_read(b, 0, got, N));
        CHECK(t, memcmp(got, want, N) == 0);
    }
    CHECK_FAILS(t, gpu_read(b, 1000, got, 31), AN_ERR_ARG, "of a buffer that has 1030");
    CHECK_FAILS(t, gpu_write(b, 1031, want, 0), AN_ERR_ARG, "of a buffer that has 1030");
    gpu_buffer_destroy(b);
}

static void large_buffers_go_through_in_pieces(an_test *t)
{
    enum { MIB = 1 << 20, N = 70 * MIB };
    gpu_device *d = device(t);
    an_buffer *b = NULL;
    if (!d) return;
    unsigned char *data = malloc(N), *back = malloc(N);
    CHECK(t, data && back);
    for (size_t i = 0; i < N; i += 61) data[i] = byte(i);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, N, &b));
    CHECK_OK(t, gpu_write(b, 0, data, N));
    CHECK_OK(t, gpu_read(b, 0, back, N));
    CHECK(t, memcmp(data, back, N) == 0);
    gpu_buffer_destroy(b);
    free(data);
    free(back);
}

/* --- compiled shaders on disk ---------------------------------------------------------------------------------------- */

static void blobs_come_back_whole_or_not_at_all(an_test *t)
{
    char folder[] = "test_webgpu_XXXXXX", value[64], path[600];
    gpu_blobs b;
    CHECK(t, mkdtemp(folder));
    CHECK_OK(t, gpu_blobs_open(t->ctx, &b, folder, 1000));
    CHECK_STR(t, b.folder, folder);
    CHECK_EQ(t, gpu_blobs_load("k", 1, NULL, 0, &b), 0);
    gpu_blobs_store("k", 1, "value", 6, &b);
    CHECK_EQ(t, gpu_blobs_load("k", 1, NULL, 0, &b), 6);
    CHECK_EQ(t, gpu_blobs_load("k", 1, value, sizeof value, &b), 6);
    CHECK_STR(t, value, "value");
    CHECK_EQ(t, gpu_blobs_load("other", 5, NULL, 0, &b), 0);
    const an_key k = an_key_of("k", 1); /* a byte of it goes wrong */
    snprintf(path, sizeof path, "%s/%016llx%016llx.blob", folder, (unsigned long long)k.hi, (unsigned long long)k.lo);
    FILE *f = fopen(path, "r+b");
    CHECK(t, f && fseek(f, -3, SEEK_END) == 0 && fputc('?', f) != EOF && fclose(f) == 0);
    CHECK_EQ(t, gpu_blobs_load("k", 1, value, sizeof value, &b), 0);
    CHECK(t, access(path, F_OK) != 0);
    for (int i = 0; i < 40; i++) { /* far more than the limit: the next to open it prunes */
        snprintf(value, sizeof value, "%d", i);
        gpu_blobs_store(value, strlen(value), value, sizeof value, &b);
    }
    CHECK_OK(t, gpu_blobs_open(t->ctx, &b, folder, 1000));
    int left = 0;
    for (int i = 0; i < 40; i++) {
        snprintf(value, sizeof value, "%d", i);
        left += gpu_blobs_load(value, strlen(value), NULL, 0, &b) != 0;
    }
    CHECK(t, left > 0 && left <= 5);
    CHECK_OK(t, gpu_blobs_open(t->ctx, &b, folder, 0));
    CHECK(t, rmdir(folder) == 0);
}

/* --- launches ------------------------------------------------------------------------------------------------------ */

/* A program of a shader written by hand: bindings and workgroups as said. */
static void program_init(an_test *t, gpu_device *d, const char *text, uint32_t nbindings, uint32_t nvars, int64_t groups, gpu_program *p)
{
    static char name[] = "by_hand";
    *p = (gpu_program){.base = {(an_device *)d}, .name = name};
    p->wgsl = (an_wgsl){.nbindings = nbindings, .nvars = nvars, .uniform_nbytes = nvars ? 16 : 0, .ngroups_code = 1};
    p->wgsl.groups[0] = (an_wgsl_code){.op = AN_OP_CONST, .value = groups};
    for (uint32_t b = 0; b < nbindings; b++) p->wgsl.bindings[b] = (an_wgsl_binding){.slot = b, .dtype = AN_F32, .is_read = true, .is_written = true, .word_nbytes = 4};
    CHECK_OK(t, gpu_pipeline_get(d, name, text, &p->pipeline));
}

static void program_fini(gpu_device *d, gpu_program *p)
{
    gpu_groups_drop(p, 0);
    an_vec_fini(d->base.ctx, &p->groups);
    gpu_pipeline_release(d, p->pipeline);
}

static const char add_var[] = "struct vars { n: u32, m: u32, }\n"
                              "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
                              "@group(0) @binding(1) var<uniform> v: vars;\n"
                              "@compute @workgroup_size(1) fn main() { x[0] = x[0] * 2.0 + f32(v.n) + 100.0 * f32(v.m); }\n";

/* Launches run in order, each with its variables; they wait for one submit; a replay makes nothing new. */
static void launches_see_their_variables_in_order(an_test *t)
{
    gpu_device *d = device(t);
    gpu_program p;
    an_buffer *b = NULL;
    float x = 0, want = 0;
    if (!d) return;
    program_init(t, d, add_var, 1, 2, 1, &p);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, sizeof x, &b));
    const uint64_t before = d->nsubmits;
    for (int64_t run = 0; run < 3; run++) {
        for (int64_t i = 0; i < 5; i++) {
            const int64_t vars[2] = {i % 3 + run, i % 2};
            CHECK_OK(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b, .vars = vars}));
            want = want * 2 + (float)vars[0] + 100 * (float)vars[1];
        }
        CHECK_OK(t, gpu_submit((an_device *)d));
        CHECK_EQ(t, d->nsubmits, before + (uint64_t)run + 1);
        CHECK_EQ(t, p.groups.len, 5); /* five values in a run: as many slots, the same in each run */
    }
    CHECK_OK(t, gpu_read(b, 0, &x, sizeof x));
    CHECK_EQ(t, x, want);
    const int64_t large[2] = {INT64_C(1) << 40, 0};
    CHECK_FAILS(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b, .vars = large}), AN_ERR_LIMIT, "does not fit 32 bits");
    program_fini(d, &p);
    gpu_buffer_destroy(b);
}

/* More sets of variables than slots: the step goes off in parts, in order. */
static void there_may_be_any_number_of_variables_in_a_step(an_test *t)
{
    gpu_device *d = device(t);
    gpu_program p;
    an_buffer *b = NULL;
    float x = 0;
    if (!d) return;
    static const char text[] = "struct vars { n: u32, }\n"
                               "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
                               "@group(0) @binding(1) var<uniform> v: vars;\n"
                               "@compute @workgroup_size(1) fn main() { x[0] = x[0] + f32(v.n); }\n";
    program_init(t, d, text, 1, 1, 1, &p);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, sizeof x, &b));
    for (int64_t i = 0; i < GPU_UNIFORM_SLOTS + 44; i++) CHECK_OK(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b, .vars = &i}));
    CHECK_OK(t, gpu_read(b, 0, &x, sizeof x));
    CHECK_EQ(t, x, (GPU_UNIFORM_SLOTS + 44) * (GPU_UNIFORM_SLOTS + 43) / 2);
    program_fini(d, &p);
    gpu_buffer_destroy(b);
}

static void launches_are_timed_by_the_device(an_test *t)
{
    gpu_device *d = device(t);
    gpu_program p;
    an_buffer *b = NULL;
    double s = -1;
    float x = 0;
    const int64_t vars[2] = {1, 0};
    if (!d) return;
    program_init(t, d, add_var, 1, 2, 1, &p);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, sizeof x, &b));
    for (int pass = 0; pass < 2; pass++) { /* the second as if it had no time stamps */
        CHECK_OK(t, gpu_time((an_program *)&p, &(an_launch){.buffers = &b, .vars = vars}, 5, &s));
        CHECK(t, s >= 0 && s < 10);
        d->adapter.features = 0;
    }
    CHECK_OK(t, gpu_read(b, 0, &x, sizeof x));
    CHECK_EQ(t, x, 1023); /* ten times 2x + 1 */
    program_fini(d, &p);
    gpu_buffer_destroy(b);
}

/* Two tensors of one buffer, one read and one written; and tensors of no elements, which WebGPU cannot bind. */
static void parts_of_a_buffer_are_bound_side_by_side(an_test *t)
{
    static const char text[] = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n"
                               "@group(0) @binding(1) var<storage, read_write> x: array<f32>;\n"
                               "@group(0) @binding(2) var<storage, read_write> e: array<f32>;\n"
                               "@group(0) @binding(3) var<storage, read_write> f: array<f32>;\n"
                               "@compute @workgroup_size(1) fn main() {\n"
                               "  y[1] = x[0] + 1.0 + 0.0 * (e[0] + f[0]); }\n";
    gpu_device *d = device(t);
    gpu_program p;
    an_buffer *b = NULL;
    float in = 41, out = 0;
    if (!d) return;
    program_init(t, d, text, 4, 0, 1, &p);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, 1024, &b));
    CHECK_OK(t, gpu_write(b, 512, &in, sizeof in));
    an_buffer *const buffers[4] = {b, b, b, b};
    const size_t offsets[4] = {256, 512, 1024, 1024}, nbytes[4] = {8, 4, 0, 0};
    CHECK_OK(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = buffers, .offsets = offsets, .nbytes = nbytes}));
    CHECK_OK(t, gpu_read(b, 260, &out, sizeof out));
    CHECK_EQ(t, out, 42);
    program_fini(d, &p);
    gpu_buffer_destroy(b);
}

static void a_shader_that_reads_the_same_is_one_pipeline(an_test *t)
{
    gpu_device *d = device(t);
    gpu_pipeline *a = NULL, *b = NULL, *c = NULL;
    if (!d) return;
    CHECK_OK(t, gpu_pipeline_get(d, "a", "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn main() { x[0] = 1.5; }", &a));
    CHECK_OK(t, gpu_pipeline_get(d, "b", "// kernel b\n  @group(0) @binding(0) var<storage, read_write> x: array<f32>; // x\n\n@compute @workgroup_size(1) fn main() { x[0] = 1.5; }\n", &b));
    CHECK_OK(t, gpu_pipeline_get(d, "c", "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn main() { x[0] = 2.5; }", &c));
    CHECK(t, a == b && a != c && a->nusers == 2);
    gpu_pipeline_release(d, a);
    gpu_pipeline_release(d, b);
    gpu_pipeline_release(d, c);
}

/* --- plans --------------------------------------------------------------------------------------------------------- */

typedef struct net {
    an_graph *g;
    an_tensor *w, *x;
    an_plan *plan;
} net;

/* One step of w <- w - x * w + 1. */
static void net_open(an_test *t, net *n)
{
    static const float w[4] = {1, 2, 3, 4}, x[4] = {0.5f, 0.25f, 1, 2};
    *n = (net){.g = an_test_graph(t)};
    CHECK_OK(t, an_graph_set_device(n->g, "webgpu"));
    n->w = an_tensor_from_host(n->g, AN_F32, AN_DIMS(4), w);
    n->x = an_tensor_from_host(n->g, AN_F32, AN_DIMS(4), x);
}

static void net_plan(net *n, an_status *st)
{
    *st = an_assign(n->w, an_add(an_sub(n->w, an_mul(n->x, n->w)), an_full_like(n->w, 1)));
    if (!*st) *st = an_plan_create(n->g, &n->w, 1, NULL, &n->plan);
}

static void a_run_of_a_plan_is_one_submit(an_test *t)
{
    gpu_device *d = device(t);
    net n;
    an_status st;
    if (!d) return;
    net_open(t, &n);
    net_plan(&n, &st);
    CHECK_OK(t, st);
    const uint64_t before = d->nsubmits;
    for (int i = 0; i < 4; i++) CHECK_OK(t, an_plan_run(n.plan));
    CHECK_EQ(t, d->nsubmits, before + 4);
    an_plan_destroy(n.plan);
}

/* A compiler of shaders that knows a zero may take x / 0 and 0 / x for 0. */
static void divisions_with_a_zero_that_is_known_are_as_others(an_test *t)
{
    static const float x[4] = {1, -2, 0, 0x1p-100f};
    float y[4];
    if (!device(t)) return;
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "webgpu"));
    an_tensor *a = an_tensor_from_host(g, AN_F32, AN_DIMS(4), x), *q = an_div(a, an_full_like(a, 0)), *z = an_div(an_full_like(a, 0), a);
    CHECK_OK(t, an_realize(&q, 1));
    CHECK_OK(t, an_tensor_read(q, y, sizeof y));
    CHECK(t, y[0] == (float)INFINITY && y[1] == -(float)INFINITY && isnan(y[2]) && y[3] == (float)INFINITY);
    CHECK_OK(t, an_realize(&z, 1));
    CHECK_OK(t, an_tensor_read(z, y, sizeof y));
    CHECK(t, y[0] == 0 && y[1] == 0 && isnan(y[2]) && y[3] == 0);
}

/* Nor is x * 0 always 0: gradients that are not finite are found by it. In a sum it is one instruction with the addition. */
static void products_with_a_zero_that_is_known_are_as_others(an_test *t)
{
    static const float x[4] = {INFINITY, -INFINITY, NAN, 2};
    float y[4];
    if (!device(t)) return;
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "webgpu"));
    an_tensor *zero = an_mul_scalar(an_tensor_from_host(g, AN_F32, AN_DIMS(4), x), 0.0), *sum = an_sum(zero, AN_ALL, false);
    CHECK_OK(t, an_realize(&zero, 1));
    CHECK_OK(t, an_tensor_read(zero, y, sizeof y));
    CHECK(t, isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && y[3] == 0);
    CHECK_OK(t, an_realize(&sum, 1));
    CHECK_OK(t, an_tensor_read(sum, y, sizeof *y));
    CHECK(t, isnan(y[0]));
    enum { N = 4096 }; /* by fours, too */
    static float many[N];
    many[N - 3] = INFINITY;
    an_tensor *all = an_sum(an_mul_scalar(an_tensor_from_host(g, AN_F32, AN_DIMS(N), many), 0.0), AN_ALL, false);
    CHECK_OK(t, an_realize(&all, 1));
    CHECK_OK(t, an_tensor_read(all, y, sizeof *y));
    CHECK(t, isnan(y[0]));
}

/* --- bad weather ---------------------------------------------------------------------------------------------------- */

static void opening_says(an_test *t, const char *name, const char *value, const char *part)
{
    an_device *dev = NULL;
    const char *old = getenv(name);
    char saved[600] = "";
    snprintf(saved, sizeof saved, "%s", old ? old : "");
    CHECK(t, setenv(name, value, 1) == 0);
    const an_status st = an_device_get(t->ctx, "webgpu", &dev);
    if (old)
        (void)setenv(name, saved, 1);
    else
        (void)unsetenv(name);
    CHECK_FAILS(t, st, AN_ERR_DEVICE, part);
}

static void a_library_that_is_none_is_a_sentence(an_test *t)
{
    opening_says(t, "ANNEAL_WEBGPU_LIB", "/nowhere/libwebgpu.so", "/nowhere/libwebgpu.so cannot be opened");
    opening_says(t, "ANNEAL_WEBGPU_LIB", "libm.so.6", "it is not a WebGPU library");
}

/* Not by the link that it was found by: scripts/fetch-webgpu.sh puts the version into the name of the file. */
static void a_library_is_named_by_its_file(an_test *t)
{
    const gpu_device *d = device(t);
    char folder[] = "test_webgpu_XXXXXX", link[64], why[AN_WEBGPU_TEXT_MAX];
    gpu_library lib;
    if (!d) return;
    CHECK(t, mkdtemp(folder));
    snprintf(link, sizeof link, "%s/libwebgpu.so", folder);
    CHECK(t, symlink(d->host.lib.path, link) == 0);
    CHECK(t, gpu_library_open(link, &lib, why));
    CHECK_STR(t, lib.path, d->host.lib.path);
    CHECK_STR(t, lib.build, d->host.lib.build);
    CHECK_CONTAINS(t, lib.build, " bytes of ");
    CHECK(t, unlink(link) == 0 && rmdir(folder) == 0);
}

static void an_adapter_that_is_none_is_a_sentence(an_test *t)
{
    if (!device(t)) return;
    an_ctx *ctx = NULL; /* a context keeps its device: this one has none yet */
    an_device *dev = NULL;
    CHECK_OK(t, an_ctx_create(NULL, &ctx));
    CHECK_EQ(t, an_backend_webgpu.open(ctx, &(an_device_desc){.adapter = "no such thing"}, &dev), AN_ERR_DEVICE);
    CHECK_CONTAINS(t, an_ctx_error(ctx), "no adapter is called 'no such thing'");
    an_ctx_clear_error(ctx);
    CHECK_EQ(t, an_backend_webgpu.open(ctx, &(an_device_desc){.adapter = "99"}, &dev), AN_ERR_DEVICE);
    an_ctx_destroy(ctx);
}

static void looking_finds_what_opening_takes(an_test *t)
{
    gpu_device *d = device(t);
    an_webgpu_report *r = calloc(1, sizeof *r);
    CHECK(t, r);
    CHECK_OK(t, an_webgpu_look(t->ctx, r));
    size_t chosen = 0;
    for (size_t i = 0; i < r->nlibraries; i++)
        for (size_t k = 0; k < r->libraries[i].nadapters; k++) {
            if (!r->libraries[i].adapters[k].is_chosen) continue;
            chosen++;
            if (d) CHECK_STR(t, r->libraries[i].adapters[k].name, d->adapter.name);
        }
    CHECK_EQ(t, chosen, d ? 1 : 0);
    free(r);
}

static void a_refused_shader_is_a_sentence_with_its_name_and_source(an_test *t)
{
    gpu_device *d = device(t);
    gpu_pipeline *p = NULL;
    if (!d) return;
    const size_t known = d->pipelines.len;
    CHECK_FAILS(t, gpu_pipeline_get(d, "matmul_x", "@compute @workgroup_size(1) fn main() { nonsense }", &p), AN_ERR_DEVICE, "kernel matmul_x");
    CHECK_FAILS(t, gpu_pipeline_get(d, "matmul_x", "@compute @workgroup_size(1) fn main() { nonsense }", &p), AN_ERR_DEVICE, "fn main() { nonsense }");
    /* Well-formed, and more threads than any device has. */
    CHECK_FAILS(t, gpu_pipeline_get(d, "wide", "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(65536) fn main() { x[0] = 1.0; }", &p), AN_ERR_DEVICE, "kernel wide");
    CHECK_EQ(t, d->pipelines.len, known);
    net n; /* the device goes on, and a plan says which kernel it was */
    an_status st;
    float w[4];
    net_open(t, &n);
    d->weather.shader = "nonsense";
    net_plan(&n, &st);
    d->weather.shader = NULL;
    CHECK_FAILS(t, st, AN_ERR_DEVICE, "refuses its shader");
    CHECK_OK(t, an_tensor_read(n.w, w, sizeof w));
    CHECK_EQ(t, w[3], -3); /* the assignment, by a kernel that is not refused */
}

static void memory_that_runs_out_leaves_the_parameters(an_test *t)
{
    gpu_device *d = device(t);
    an_status st;
    net n;
    float w[4];
    if (!d) return;
    net_open(t, &n);
    d->weather.memory_nbytes = d->nbytes + 100;
    an_tensor *big = an_add(an_full(n.g, AN_F32, AN_DIMS(250000, 4), 1), n.w);
    CHECK_FAILS(t, an_realize(&big, 1), AN_ERR_NOMEM, "no memory on the device");
    CHECK_OK(t, an_tensor_read(n.w, w, sizeof w));
    CHECK_EQ(t, w[0], 1);
    d->weather.memory_nbytes = 0;
    net_plan(&n, &st);
    CHECK_OK(t, st);
    CHECK_OK(t, an_plan_run(n.plan));
    CHECK_OK(t, an_tensor_read(n.w, w, sizeof w));
    CHECK_EQ(t, w[0], 1.5);
    an_plan_destroy(n.plan);
    an_buffer *b = NULL;
    CHECK_FAILS(t, gpu_buffer_create((an_device *)d, SIZE_MAX / 2, &b), AN_ERR_LIMIT, "more than this adapter allows");
    CHECK_FAILS(t, gpu_buffer_create((an_device *)d, SIZE_MAX, &b), AN_ERR_LIMIT, "too large");
}

/* A launch that cannot be made takes with it what was launched before, since the last submit. */
static void a_step_that_fails_in_the_middle_does_nothing(an_test *t)
{
    gpu_device *d = device(t);
    gpu_program p;
    an_buffer *b = NULL;
    float x = 3;
    if (!d) return;
    program_init(t, d, add_var, 1, 2, 1, &p);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, sizeof x, &b));
    CHECK_OK(t, gpu_write(b, 0, &x, sizeof x));
    const int64_t good[2] = {1, 1}, bad[2] = {-1, 0};
    CHECK_OK(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b, .vars = good}));
    CHECK_FAILS(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b, .vars = bad}), AN_ERR_LIMIT, "does not fit");
    CHECK_OK(t, gpu_submit((an_device *)d));
    CHECK_OK(t, gpu_read(b, 0, &x, sizeof x));
    CHECK_EQ(t, x, 3);
    program_fini(d, &p);
    gpu_buffer_destroy(b);
}

static void tiny_limits_are_kept_or_named(an_test *t)
{
    static const char text[] = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
                               "@compute @workgroup_size(1)\n"
                               "fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {\n"
                               "  let i = wg.x + nwg.x * (wg.y + nwg.y * wg.z); if (i < 1000u) { x[i] = x[i] + 1u; } }\n";
    gpu_device *d = device(t);
    gpu_program p;
    an_buffer *b = NULL;
    uint32_t x[1000];
    if (!d) return;
    const an_wgsl_caps caps = d->caps;
    program_init(t, d, text, 1, 0, 1000, &p);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, sizeof x, &b));
    d->caps.max_groups = 11; /* 1000 workgroups in three dimensions of 11 */
    CHECK_OK(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b}));
    CHECK_OK(t, gpu_read(b, 0, x, sizeof x));
    for (int i = 0; i < 1000; i++) CHECK_EQ(t, x[i], 1);
    d->caps.max_groups = 9;
    CHECK_FAILS(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b}), AN_ERR_LIMIT, "more workgroups than three dimensions of 9 hold");
    d->caps = caps;
    d->caps.max_binding_nbytes = 1024;
    gpu_groups_drop(&p, 0);
    CHECK_FAILS(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b}), AN_ERR_LIMIT, "lets a kernel see at most 1024");
    d->caps = caps;
    program_fini(d, &p);
    gpu_buffer_destroy(b);
    /* Fewer buffers than a sum of many tensors has: the scheduler makes more kernels of it. */
    an_graph *g = an_test_graph(t);
    an_tensor *sum = NULL;
    float out = 0;
    d->caps.max_buffers = d->base.max_buffers = 4;
    CHECK_OK(t, an_graph_set_device(g, "webgpu"));
    for (int i = 0; i < 12; i++) {
        const float v = (float)i;
        an_tensor *x1 = an_tensor_from_host(g, AN_F32, AN_DIMS(1), &v);
        sum = sum ? an_add(sum, x1) : x1;
    }
    CHECK_OK(t, an_realize(&sum, 1));
    CHECK_OK(t, an_tensor_read(sum, &out, sizeof out));
    CHECK_EQ(t, out, 66);
    d->caps = caps;
    d->base.max_buffers = caps.max_buffers;
}

static void nothing_works_on(an_test *t, gpu_device *d, net *n, const char *why)
{
    float w[4];
    an_buffer *b = NULL;
    CHECK_FAILS(t, an_plan_run(n->plan), AN_ERR_DEVICE, why);
    CHECK_FAILS(t, an_tensor_read(n->w, w, sizeof w), AN_ERR_DEVICE, why);
    CHECK_FAILS(t, gpu_wait((an_device *)d), AN_ERR_DEVICE, why);
    CHECK_FAILS(t, gpu_buffer_create((an_device *)d, 16, &b), AN_ERR_DEVICE, why);
    an_plan_destroy(n->plan);
}

static void a_lost_device_is_a_sentence(an_test *t)
{
    gpu_device *d = device(t);
    an_status st;
    net n;
    if (!d) return;
    net_open(t, &n);
    net_plan(&n, &st);
    CHECK_OK(t, st);
    CHECK_OK(t, an_plan_run(n.plan));
    d->host.lib.api.DeviceDestroy(d->handle);
    for (int i = 0; i < 20; i++) d->host.lib.api.InstanceProcessEvents(d->host.instance);
    nothing_works_on(t, d, &n, "is lost");
}

/* Lost between two looks: while a step is recorded, and nobody has said so yet. */
static void a_device_lost_in_mid_step_is_a_sentence(an_test *t)
{
    gpu_device *d = device(t);
    gpu_program p;
    an_buffer *b = NULL;
    const int64_t vars[2] = {1, 1};
    if (!d) return;
    program_init(t, d, add_var, 1, 2, 1, &p);
    CHECK_OK(t, gpu_buffer_create((an_device *)d, 4, &b));
    CHECK_OK(t, gpu_launch((an_program *)&p, &(an_launch){.buffers = &b, .vars = vars}));
    d->host.lib.api.DeviceDestroy(d->handle);
    an_status st = gpu_launch((an_program *)&p, &(an_launch){.buffers = &b, .vars = vars});
    if (!st) st = gpu_wait((an_device *)d);
    CHECK_FAILS(t, st, AN_ERR_DEVICE, "webgpu: ");
    program_fini(d, &p);
    gpu_buffer_destroy(b);
}

static void no_answer_is_a_sentence(an_test *t)
{
    gpu_device *d = device(t);
    an_status st;
    net n;
    float w[4];
    if (!d) return;
    net_open(t, &n);
    net_plan(&n, &st);
    CHECK_OK(t, st);
    d->weather.deaf = true;
    CHECK_FAILS(t, an_tensor_read(n.w, w, sizeof w), AN_ERR_DEVICE, "no answer within");
    nothing_works_on(t, d, &n, "no answer within");
}

/* --- allocations ---------------------------------------------------------------------------------------------------- */

static an_status whole_life(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_device *dev = NULL;
    an_buffer *b = NULL;
    float x = 1;
    an_status st = an_backend_webgpu.open(ctx, NULL, &dev);
    if (!st) st = gpu_buffer_create(dev, sizeof x, &b);
    if (!st) st = gpu_write(b, 0, &x, sizeof x);
    if (!st) st = gpu_read(b, 0, &x, sizeof x);
    gpu_buffer_destroy(b);
    an_backend_webgpu.close(dev);
    return st;
}

static void every_failing_allocation_is_a_clean_error(an_test *t)
{
    if (device(t)) an_test_every_alloc_failure(t, whole_life, NULL);
}

/* --- searches ------------------------------------------------------------------------------------------------------ */

typedef struct trouble {
    int run, at; /* the at-th run is the last of its device */
} trouble;

static an_status run_in_trouble(void *user, an_device *dev, an_program *prog, const an_launch *l, double *seconds)
{
    trouble *x = user;
    gpu_device *d = gpu_of(dev);
    if (++x->run == x->at) d->host.lib.api.DeviceDestroy(d->handle);
    return gpu_time(prog, l, 1, seconds);
}

/* Searches for a product of 64 x 32 by 32 x 32. at: the run that the device is lost in; 0: none. False where there is no device. */
static bool search_product(an_test *t, int at, an_search_result *r)
{
    const gpu_device *d = device(t);
    const kernel k = kernel_matmul(an_test_graph(t), AN_F32, 64, 32, 32, false, false, false);
    an_kernel made = {.name = "product", .graph = an_test_graph(t), .sink = k.sink, .nparams = k.nparams};
    size_t nbytes[KERNEL_PARAMS_MAX];
    trouble x = {.at = at};
    const an_search_timer timer = {run_in_trouble, &x};
    if (!d) return false;
    for (uint32_t i = 0; i < k.nparams; i++) {
        made.params[i] = (an_kernel_param){k.dtype[i], true, k.is_out[i]};
        nbytes[i] = (size_t)k.nelem[i] * an_dtype_nbytes(k.dtype[i]);
    }
    const an_search_desc desc = {.backend = &an_backend_webgpu,
                                 .opts = {.vector_nbytes = 16, .gpu = {d->base.gpu_threads, d->base.gpu_local_nbytes, d->base.gpu_units, d->base.gpu_small_code, d->base.gpu_has_matrix}},
                                 .width = 1,
                                 .depth = 0,
                                 .seconds = 300,
                                 .candidate_seconds = 60,
                                 .timer = at ? &timer : NULL,
                                 .no_child = d->base.no_fork};
    CHECK(t, d->base.no_fork && d->base.identity != 0);
    CHECK_OK(t, an_search(t->ctx, &desc, &made, nbytes, r));
    CHECK_STR(t, an_ctx_error(t->ctx), "");
    return true;
}

static void a_search_tries_tiles(an_test *t)
{
    an_search_result r = {0};
    if (!search_product(t, 0, &r)) return;
    CHECK(t, r.found && r.seconds > 0 && r.seconds <= r.first_seconds);
    CHECK(t, r.count[AN_SEARCH_TIMED] >= 3);
    CHECK_EQ(t, r.count[AN_SEARCH_WRONG] + r.count[AN_SEARCH_HUNG] + r.count[AN_SEARCH_DIED], 0);
    an_search_result_fini(t->ctx, &r);
}

static void a_search_survives_the_device(an_test *t)
{
    an_search_result r = {0};
    if (!search_product(t, 9, &r)) return; /* 1 the plain kernel, 6 the first list, 2 into the second */
    CHECK(t, r.found);
    CHECK_EQ(t, r.count[AN_SEARCH_DIED], 1);
    CHECK(t, r.count[AN_SEARCH_TIMED] >= 2);
    an_search_result_fini(t->ctx, &r);
}

/* A product by a plan with a search or without; *by_hand: it runs a list that was found. */
static bool plan_product(an_test *t, unsigned width, float *y, bool *by_hand)
{
    static float data[2 * 32 * 32];
    an_plan *plan = NULL;
    if (!device(t)) return false;
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) data[i] = (float)(i * 7919 % 1013) / 506.5f - 1.0f;
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){.no_cache = true, .beam_width = width, .beam_depth = 1, .beam_seconds = 3}));
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "webgpu"));
    an_tensor *out = an_matmul(an_tensor_from_host(g, AN_F32, AN_DIMS(32, 32), data), an_tensor_from_host(g, AN_F32, AN_DIMS(32, 32), data + 32 * 32));
    CHECK_OK(t, an_plan_create(g, &out, 1, NULL, &plan));
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_tensor_read(out, y, 32 * 32 * sizeof *y));
    *by_hand = plan->kernels[0]->opts.by_hand;
    an_plan_destroy(plan);
    return true;
}

static void plans_run_what_a_search_found(an_test *t)
{
    static float off[32 * 32], first[32 * 32], second[32 * 32];
    bool by_hand[3];
    if (!plan_product(t, 0, off, &by_hand[0])) return;
    (void)plan_product(t, 1, first, &by_hand[1]);
    const double start = gpu_clock();
    (void)plan_product(t, 1, second, &by_hand[2]);
    CHECK(t, !by_hand[0] && by_hand[1] && by_hand[2]);
    CHECK(t, gpu_clock() - start < 5); /* it is known */
    for (size_t i = 0; i < 32 * 32; i++) CHECK_NEAR(t, first[i], off[i], 1e-4);
    CHECK(t, memcmp(first, second, sizeof first) == 0);
}

AN_TEST_MAIN(AN_CASE(bytes_come_back_from_any_offset), AN_CASE(large_buffers_go_through_in_pieces),
             AN_CASE(blobs_come_back_whole_or_not_at_all),
             AN_CASE(launches_see_their_variables_in_order), AN_CASE(there_may_be_any_number_of_variables_in_a_step),
             AN_CASE(launches_are_timed_by_the_device), AN_CASE(parts_of_a_buffer_are_bound_side_by_side), AN_CASE(a_shader_that_reads_the_same_is_one_pipeline),
             AN_CASE(a_run_of_a_plan_is_one_submit), AN_CASE(divisions_with_a_zero_that_is_known_are_as_others),
             AN_CASE(products_with_a_zero_that_is_known_are_as_others),
             AN_CASE(a_library_that_is_none_is_a_sentence),
             AN_CASE(a_library_is_named_by_its_file),
             AN_CASE(an_adapter_that_is_none_is_a_sentence), AN_CASE(looking_finds_what_opening_takes),
             AN_CASE(a_refused_shader_is_a_sentence_with_its_name_and_source), AN_CASE(memory_that_runs_out_leaves_the_parameters),
             AN_CASE(a_step_that_fails_in_the_middle_does_nothing), AN_CASE(tiny_limits_are_kept_or_named),
             AN_CASE(a_lost_device_is_a_sentence), AN_CASE(a_device_lost_in_mid_step_is_a_sentence), AN_CASE(no_answer_is_a_sentence),
             AN_CASE(every_failing_allocation_is_a_clean_error), AN_CASE(a_search_tries_tiles), AN_CASE(a_search_survives_the_device),
             AN_CASE(plans_run_what_a_search_found))

#else
static void this_build_has_no_webgpu(an_test *t)
{
    (void)t;
}
AN_TEST_MAIN(AN_CASE(this_build_has_no_webgpu))
#endif
