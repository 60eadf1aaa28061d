/* test_generative.c - models that make pictures, trained for a moment: the loss falls below a stated value, and what they make looks like
 * what they learnt from, by moments and by the distance to the nearest real picture. Noise of the same moments must fail. */
#include "an_test.h"
#include "noise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = MODEL_SPOT_SIDE * MODEL_SPOT_SIDE, NREAL = 2048, NMADE = 256 };

/* --- training ---------------------------------------------------------------------------------------- */

typedef struct trained {
    model_options options;
    model_graphs graphs;
    an_graph *g;
    double loss; /* the mean over the last tenth of the steps */
} trained;

static size_t place_of(const model *m, const char *name)
{
    size_t i = 0;
    while (i < model_nvalues(m) && strcmp(model_get_value(m, (uint32_t)i).name, name) != 0) i++;
    return i;
}

typedef struct setting {
    const char *name;
    double value;
} setting;

static trained train(an_test *t, const char *name, const setting *settings, size_t n)
{
    const model *m = model_find(name);
    trained r = {0};
    an_plan *plan = NULL;
    CHECK(t, m != NULL && model_defaults(m, NULL, &r.options));
    for (size_t i = 0; i < n; i++) {
        const size_t at = place_of(m, settings[i].name);
        CHECK(t, at < model_nvalues(m));
        r.options.values[at] = settings[i].value;
    }
    r.options.eval_batch = 64;
    const int64_t steps = model_size(&r.options, MODEL_STEPS);
    CHECK_OK(t, an_graph_create(t->ctx, &r.g));
    CHECK_OK(t, model_build(m, r.g, &r.options, &r.graphs));
    CHECK_OK(t, model_plan(&r.graphs, NULL, &plan));
    for (int64_t i = 0; i < steps; i++) {
        double loss = 0;
        CHECK_OK(t, an_plan_run(plan));
        if (i < steps - steps / 10) continue;
        CHECK_OK(t, an_item_f64(r.graphs.loss, &loss));
        r.loss += loss / (double)(steps / 10);
    }
    an_plan_destroy(plan);
    return r;
}

/* --- comparing --------------------------------------------------------------------------------------- */

/* How far pictures are from real ones. */
typedef struct likeness {
    double mean;     /* greatest difference of a pixel's mean */
    double square;   /* of the mean square over all */
    double nearest;  /* mean over pictures of the root mean square difference to the nearest real one */
} likeness;

static double product(const float *x, size_t n, size_t a, size_t b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i * PIXELS + a] * (double)x[i * PIXELS + b];
    return sum / (double)n;
}

static double distance(const float *x, const float *y)
{
    double d = 0;
    for (size_t k = 0; k < PIXELS; k++) d += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
    return sqrt(d / PIXELS);
}

static size_t nearest_of(const float *x, const float *real, size_t nreal)
{
    size_t least = 0;
    for (size_t r = 1; r < nreal; r++)
        if (distance(x, real + r * PIXELS) < distance(x, real + least * PIXELS)) least = r;
    return least;
}

static double nearest(const float *x, const float *real, size_t nreal)
{
    double least = (double)INFINITY;
    for (size_t r = 0; r < nreal; r++) {
        double d = 0;
        for (size_t k = 0; k < PIXELS; k++) d += ((double)x[k] - (double)real[r * PIXELS + k]) * ((double)x[k] - (double)real[r * PIXELS + k]);
        if (d < least) least = d;
    }
    return sqrt(least / PIXELS);
}

static likeness compare(const float *made, const float *real, size_t nreal)
{
    likeness l = {0};
    double squares[2] = {0, 0};
    for (size_t k = 0; k < PIXELS; k++) {
        double means[2] = {0, 0};
        for (size_t i = 0; i < NMADE; i++) means[0] += (double)made[i * PIXELS + k] / NMADE;
        for (size_t i = 0; i < nreal; i++) means[1] += (double)real[i * PIXELS + k] / (double)nreal;
        l.mean = fmax(l.mean, fabs(means[0] - means[1]));
        squares[0] += product(made, NMADE, k, k) / PIXELS;
        squares[1] += product(real, nreal, k, k) / PIXELS;
    }
    l.square = fabs(squares[0] - squares[1]);
    for (size_t i = 0; i < NMADE; i++) l.nearest += nearest(made + i * PIXELS, real, nreal) / NMADE;
    return l;
}

static float *read_all(an_test *t, an_tensor *x)
{
    float *v = malloc(an_tensor_nbytes(x));
    CHECK_OK(t, an_tensor_read(x, v, an_tensor_nbytes(x)));
    return v;
}

/* Noise with the mean and deviation of each pixel of the real ones: what a model that learnt only those would make. */
static float *moment_noise(an_test *t, an_rng *rng, const float *real)
{
    an_tensor *x = an_normal(rng, AN_F32, AN_DIMS(NMADE, PIXELS), 0, 1);
    float *v = read_all(t, x);
    for (size_t k = 0; k < PIXELS; k++) {
        double mean = 0;
        for (size_t i = 0; i < NREAL; i++) mean += (double)real[i * PIXELS + k] / NREAL;
        const double deviation = sqrt(fmax(product(real, NREAL, k, k) - mean * mean, 0));
        for (size_t i = 0; i < NMADE; i++) v[i * PIXELS + k] = (float)(mean + deviation * (double)v[i * PIXELS + k]);
    }
    return v;
}

/* Noise of the same moments is 0.5 from the nearest real picture. */
static bool looks_real(const likeness *l, double most_far)
{
    return l->mean <= 0.25 && l->square <= 0.2 && l->nearest <= most_far;
}

static void check_pictures(an_test *t, const char *name, const trained *r, double most_loss, double most_far)
{
    const model *m = model_find(name);
    an_rng *rng = an_rng_from_seed(r->g, 77);
    an_tensor *made = m->sample(&r->options, &r->graphs, NMADE);
    CHECK(t, made != NULL);
    float *x = read_all(t, made), *real = read_all(t, model_draw_spots(rng, NREAL, NULL)), *noise = moment_noise(t, rng, real);
    const size_t others = NREAL - NMADE; /* the last ones stand for pictures that are right */
    const likeness l = compare(x, real, others), of_noise = compare(noise, real, others), of_real = compare(real + others * PIXELS, real, others);
    printf("%s: loss %.4f; mean %.3f square %.3f nearest %.3f; noise: %.3f %.3f %.3f; real: %.3f %.3f %.3f\n", name, r->loss, l.mean, l.square,
           l.nearest, of_noise.mean, of_noise.square, of_noise.nearest, of_real.mean, of_real.square, of_real.nearest);
    CHECK(t, !looks_real(&of_noise, most_far));
    CHECK(t, looks_real(&of_real, most_far));
    CHECK(t, looks_real(&l, most_far));
    CHECK(t, r->loss < most_loss);
    free(x);
    free(real);
    free(noise);
}

/* --- sampling alone ------------------------------------------------------------------------------------ */

/* What a perfect network would say where the pictures of a class are all that there are: the noise in x is what x has beside the mean
 * of those pictures, each weighed by how likely it is to have become x. */
typedef struct perfect {
    const model_noise *noise;
    an_tensor *pictures, *classes; /* f32 (n, pixels); i32 (n); class NCLASSES is any */
} perfect;

enum { NCLASSES = MODEL_SPOT_CLASSES, FEW = 64 };

static an_tensor *perfect_denoise(an_module *m, an_tensor *x, an_tensor *t, an_tensor *classes)
{
    const perfect *p = an_module_data(m);
    const int64_t batch = an_tensor_dim(x, 0), side = MODEL_SPOT_SIDE;
    an_tensor *keep = an_unsqueeze(an_take(p->noise->keep, t, 0), 1), *flat = an_reshape(x, AN_DIMS(batch, PIXELS));
    an_tensor *clean = an_mul(an_unsqueeze(an_sqrt(keep), 2), an_unsqueeze(p->pictures, 0)); /* (batch, n, pixels) */
    an_tensor *far = an_sum(an_square(an_sub(an_unsqueeze(flat, 1), clean)), AN_DIMS(2), false);
    an_tensor *likely = an_div(an_mul_scalar(far, -0.5), an_rsub_scalar(keep, 1));
    if (classes) {
        an_tensor *asked = an_unsqueeze(classes, 1);
        an_tensor *is_one = an_logical_or(an_eq(asked, an_unsqueeze(p->classes, 0)), an_eq_scalar(asked, NCLASSES));
        likely = an_where(is_one, likely, an_full_like(likely, -1e9));
    }
    an_tensor *seems = an_matmul(an_softmax(likely, 1), p->pictures);
    an_tensor *noise = an_div(an_sub(flat, an_mul(an_sqrt(keep), seems)), an_sqrt(an_rsub_scalar(keep, 1)));
    return an_reshape(noise, AN_DIMS(batch, 1, side, side));
}

/* A perfect network makes the pictures that it knows, as often as they are there, each of the class that is asked for. */
static void sampling_with_a_perfect_network_gives_the_data(an_test *t)
{
    an_graph *g = an_test_graph(t);
    model_noise noise;
    an_rng *rng = an_rng_from_seed(g, 5);
    perfect p = {.noise = &noise};
    an_tensor *x = model_draw_spots(rng, FEW, &p.classes);
    p.pictures = an_reshape(x, AN_DIMS(FEW, PIXELS));
    CHECK_OK(t, an_realize((an_tensor *[]){p.pictures, p.classes}, 2));
    float *real = read_all(t, p.pictures);
    int32_t of[FEW];
    CHECK_OK(t, an_tensor_read(p.classes, of, sizeof of));
    CHECK(t, model_noise_init(&noise, g, 100));
    an_module *net = an_module_create(g, "perfect", NULL, &p);
    for (int guided = 0; guided < 2; guided++) {
        an_tensor *asked = an_contiguous(an_mod_scalar(an_arange(g, AN_I32, 0, NMADE, 1), NCLASSES));
        an_tensor *made = model_noise_sample(&noise, rng, perfect_denoise, net, (const int64_t[]){NMADE, 1, MODEL_SPOT_SIDE, MODEL_SPOT_SIDE},
                                             guided ? asked : NULL, NCLASSES, guided ? 2 : 1);
        CHECK(t, made != NULL);
        float *v = read_all(t, made);
        const likeness l = compare(v, real, FEW);
        size_t wrong = 0;
        for (size_t i = 0; i < NMADE && guided; i++) wrong += (size_t)of[nearest_of(v + i * PIXELS, real, FEW)] != i % NCLASSES;
        printf("perfect: mean %.3f square %.3f nearest %.4f, of another class %zu\n", l.mean, l.square, l.nearest, wrong);
        CHECK(t, l.mean < 0.25 && l.square < 0.1 && l.nearest < 0.02 && wrong == 0);
        free(v);
    }
    free(real);
}

static void diffusion_makes_spots(an_test *t)
{
    static const setting settings[] = {{"steps", 1500}, {"batch", 128}};
    trained r = train(t, "diffusion", settings, 2);
    check_pictures(t, "diffusion", &r, 0.16, 0.3);
    an_graph_destroy(r.g);
}

static void meanflow_makes_spots_in_one_step(an_test *t)
{
    static const setting settings[] = {{"steps", 700}, {"batch", 64}, {"dim", 48}, {"depth", 1}};
    trained r = train(t, "meanflow", settings, 4);
    check_pictures(t, "meanflow", &r, 0.1, 0.15);
    an_graph_destroy(r.g);
}

/* The derivative is part of the loss: without it training goes another way. (At the very first step both are one, since the network
 * begins as zero.) */
static void the_jvp_changes_meanflows_loss(an_test *t)
{
    double losses[2];
    for (int i = 0; i < 2; i++) {
        const setting settings[] = {{"steps", 60}, {"batch", 16}, {"dim", 32}, {"depth", 1}, {"same", 0.25}, {"without-jvp", i}};
        trained r = train(t, "meanflow", settings, 6);
        losses[i] = r.loss;
        an_graph_destroy(r.g);
    }
    printf("meanflow: loss with the JVP %.5f, without %.5f\n", losses[0], losses[1]);
    CHECK(t, isfinite(losses[0]) && isfinite(losses[1]) && fabs(losses[0] - losses[1]) > 1e-3);
}

AN_TEST_MAIN(AN_CASE(sampling_with_a_perfect_network_gives_the_data), AN_CASE(diffusion_makes_spots), AN_CASE(meanflow_makes_spots_in_one_step), AN_CASE(the_jvp_changes_meanflows_loss))
