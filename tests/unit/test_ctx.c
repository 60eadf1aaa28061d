/* test_ctx.c - the context: memory accounting and the first error. */
#include "an_test.h"
#include "base/base.h"

static void bytes_held_go_up_and_come_back(an_test *t)
{
    const size_t before = an_ctx_nbytes(t->ctx);
    void *p = an_mem_alloc(t->ctx, 1000);
    CHECK_EQ(t, an_ctx_nbytes(t->ctx), before + 1000);
    p = an_mem_realloc(t->ctx, p, 1000, 3000);
    CHECK_EQ(t, an_ctx_nbytes(t->ctx), before + 3000);
    an_mem_free(t->ctx, p, 3000);
    CHECK_EQ(t, an_ctx_nbytes(t->ctx), before);
    CHECK_EQ(t, an_ctx_peak_nbytes(t->ctx), before + 3000);
}

static void zero_bytes_are_a_block_of_their_own(an_test *t)
{
    void *a = an_mem_alloc(t->ctx, 0), *b = an_mem_alloc(t->ctx, 0);
    CHECK(t, a && b && a != b);
    a = an_mem_realloc(t->ctx, a, 0, 16);
    an_mem_free(t->ctx, a, 16);
    an_mem_free(t->ctx, b, 0);
}

static void the_first_error_is_kept_until_cleared(an_test *t)
{
    CHECK_EQ(t, an_fail(t->ctx, AN_ERR_SHAPE, "first %d", 1), AN_ERR_SHAPE);
    CHECK_EQ(t, an_fail(t->ctx, AN_ERR_IO, "second"), AN_ERR_IO);
    CHECK_STR(t, an_ctx_error(t->ctx), "first 1");
    CHECK_EQ(t, an_ctx_status(t->ctx), AN_ERR_SHAPE);
    an_ctx_clear_error(t->ctx);
    CHECK_STR(t, an_ctx_error(t->ctx), "");
    CHECK_EQ(t, an_ctx_status(t->ctx), AN_OK);
}

static void a_size_no_machine_has_is_out_of_memory(an_test *t)
{
    CHECK(t, !an_mem_alloc(t->ctx, SIZE_MAX));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_NOMEM, "out of memory");
}

static an_status grow_an_array(an_ctx *ctx, void *arg)
{
    (void)arg;
    AN_VEC(int) v = {0};
    an_status st = AN_OK;
    for (int i = 0; i < 1000 && !st; i++)
        if (!an_vec_push(ctx, &v, i)) st = an_ctx_status(ctx);
    an_vec_fini(ctx, &v);
    return st;
}

static void an_array_that_cannot_grow_says_so(an_test *t)
{
    an_test_every_alloc_failure(t, grow_an_array, NULL);
}

static an_status build_a_string(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_str s;
    an_str_init(&s, ctx);
    for (int i = 0; i < 200; i++) an_str_printf(&s, "%d, ", i);
    an_str_json(&s, "\"quoted\"\n");
    const an_status st = s.failed ? AN_ERR_NOMEM : AN_OK;
    an_str_fini(&s);
    return st;
}

static void a_string_that_cannot_grow_says_so(an_test *t)
{
    an_test_every_alloc_failure(t, build_a_string, NULL);
}

AN_TEST_MAIN(AN_CASE(bytes_held_go_up_and_come_back), AN_CASE(zero_bytes_are_a_block_of_their_own),
             AN_CASE(the_first_error_is_kept_until_cleared), AN_CASE(a_size_no_machine_has_is_out_of_memory),
             AN_CASE(an_array_that_cannot_grow_says_so), AN_CASE(a_string_that_cannot_grow_says_so))
