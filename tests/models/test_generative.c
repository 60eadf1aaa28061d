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

/* feed, unless NULL, writes the batch of a step. */
static trained train(an_test *t, const char *name, const setting *settings, size_t n, void (*feed)(an_test *t, const model_graphs *graphs, int64_t step))
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
        if (feed) feed(t, &r.graphs, i);
        CHECK_OK(t, an_plan_run(plan));
        if (i < steps - steps / 10) continue;
        CHECK_OK(t, an_item_f64(r.graphs.loss, &loss));
        r.loss += loss / (double)(steps / 10);
    }
    an_plan_destroy(plan);
    return r;
}

/* --- comparing --------------------------------------------------------------------------------------- */

/* n pictures of npixels numbers each. */
typedef struct pictures {
    const float *v;
    size_t n, npixels;
} pictures;

/* How far pictures are from real ones. */
typedef struct likeness {
    double mean;     /* greatest difference of a pixel's mean */
    double square;   /* of the mean square over all */
    double nearest;  /* mean over pictures of the root mean square difference to the nearest real one */
} likeness;

static double distance(const float *x, const float *y, size_t npixels)
{
    double d = 0;
    for (size_t k = 0; k < npixels; k++) d += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
    return sqrt(d / (double)npixels);
}

static size_t nearest_of(const float *x, const pictures *real)
{
    size_t least = 0;
    double least_far = (double)INFINITY;
    for (size_t r = 0; r < real->n; r++) {
        const double far = distance(x, real->v + r * real->npixels, real->npixels);
        if (far >= least_far) continue;
        least = r;
        least_far = far;
    }
    return least;
}

/* Of pixel k: the mean, or the mean square. */
static double moment(const pictures *p, size_t k, bool square)
{
    double sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        const double v = (double)p->v[i * p->npixels + k];
        sum += square ? v * v : v;
    }
    return sum / (double)p->n;
}

static likeness compare(const pictures *made, const pictures *real)
{
    likeness l = {0};
    for (size_t k = 0; k < real->npixels; k++) {
        l.mean = fmax(l.mean, fabs(moment(made, k, false) - moment(real, k, false)));
        l.square += (moment(made, k, true) - moment(real, k, true)) / (double)real->npixels;
    }
    l.square = fabs(l.square);
    for (size_t i = 0; i < made->n; i++) {
        const float *x = made->v + i * made->npixels;
        l.nearest += distance(x, real->v + nearest_of(x, real) * real->npixels, real->npixels) / (double)made->n;
    }
    return l;
}

static float *read_all(an_test *t, an_tensor *x)
{
    float *v = malloc(an_tensor_nbytes(x));
    CHECK_OK(t, an_tensor_read(x, v, an_tensor_nbytes(x)));
    return v;
}

/* Noise with the mean and deviation of each pixel of the real ones: what a model that learnt only those would make. */
static float *moment_noise(an_test *t, an_rng *rng, const pictures *real, size_t n)
{
    float *v = read_all(t, an_normal(rng, AN_F32, AN_DIMS((int64_t)n, (int64_t)real->npixels), 0, 1));
    for (size_t k = 0; k < real->npixels; k++) {
        const double mean = moment(real, k, false), deviation = sqrt(fmax(moment(real, k, true) - mean * mean, 0));
        for (size_t i = 0; i < n; i++) v[i * real->npixels + k] = (float)(mean + deviation * (double)v[i * real->npixels + k]);
    }
    return v;
}

/* What pictures must be to count as real. */
static bool looks_real(const likeness *l, const likeness *most)
{
    return l->mean <= most->mean && l->square <= most->square && l->nearest <= most->nearest;
}

/* Are what a model made, and as many others that are real, like the real ones, and noise not? */
static void check_pictures(an_test *t, const char *name, const trained *r, double most_loss, const likeness *most, const pictures *made,
                           const pictures *real)
{
    const pictures others = {real->v, real->n - made->n, real->npixels}, right = {real->v + others.n * real->npixels, made->n, real->npixels};
    an_rng *rng = an_rng_from_seed(r->g, 78);
    float *noise = moment_noise(t, rng, real, made->n);
    const likeness l = compare(made, &others), of_noise = compare(&(pictures){noise, made->n, real->npixels}, &others),
                   of_real = compare(&right, &others);
    printf("%s: loss %.4f; mean %.3f square %.3f nearest %.3f; noise: %.3f %.3f %.3f; real: %.3f %.3f %.3f\n", name, r->loss, l.mean, l.square,
           l.nearest, of_noise.mean, of_noise.square, of_noise.nearest, of_real.mean, of_real.square, of_real.nearest);
    free(noise);
    CHECK(t, !looks_real(&of_noise, most));
    CHECK(t, looks_real(&of_real, most));
    CHECK(t, looks_real(&l, most));
    CHECK(t, r->loss < most_loss);
}

/* Of a model that learnt spots. */
static void check_spots(an_test *t, const char *name, const trained *r, double most_loss, const likeness *most)
{
    an_tensor *x = model_find(name)->sample(&r->options, &r->graphs, NMADE);
    CHECK(t, x != NULL);
    float *made = read_all(t, x), *real = read_all(t, model_draw_spots(an_rng_from_seed(r->g, 77), NREAL, NULL));
    check_pictures(t, name, r, most_loss, most, &(pictures){made, NMADE, PIXELS}, &(pictures){real, NREAL, PIXELS});
    free(made);
    free(real);
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
    const pictures few = {real, FEW, PIXELS};
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
        const likeness l = compare(&(pictures){v, NMADE, PIXELS}, &few);
        size_t wrong = 0;
        for (size_t i = 0; i < NMADE && guided; i++) wrong += (size_t)of[nearest_of(v + i * PIXELS, &few)] != i % NCLASSES;
        printf("perfect: mean %.3f square %.3f nearest %.4f, of another class %zu\n", l.mean, l.square, l.nearest, wrong);
        CHECK(t, l.mean < 0.25 && l.square < 0.1 && l.nearest < 0.02 && wrong == 0);
        free(v);
    }
    free(real);
}

static void diffusion_makes_spots(an_test *t)
{
    static const setting settings[] = {{"steps", 1500}, {"batch", 128}};
    trained r = train(t, "diffusion", settings, 2, NULL);
    check_spots(t, "diffusion", &r, 0.16, &(likeness){0.25, 0.2, 0.3});
    an_graph_destroy(r.g);
}

static void meanflow_makes_spots_in_one_step(an_test *t)
{
    static const setting settings[] = {{"steps", 700}, {"batch", 64}, {"dim", 48}, {"depth", 1}};
    trained r = train(t, "meanflow", settings, 4, NULL);
    check_spots(t, "meanflow", &r, 0.1, &(likeness){0.25, 0.2, 0.15});
    an_graph_destroy(r.g);
}

/* --- pictures in colour ---------------------------------------------------------------------------------- */

enum { COLOURS = 4, SIDE = 32, PLANE = SIDE * SIDE, NCOLOURED = 512, NSHOWN = 16 /* four of each class, as dit's sample has them */ };

/* A number from 0 to 1. */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1 << 24);
}

/* Picture i: a wide spot on black, its quarter and its colour its class, which is returned. */
static int32_t coloured(uint64_t i, uint8_t *bytes)
{
    static const double colours[COLOURS][3] = {{1, 0.2, 0}, {0, 1, 0.2}, {0.2, 0, 1}, {1, 1, 1}}, wide = 4.5;
    uint64_t state = i * 2654435761u + 12345;
    (void)draw(&state);
    const int class = (int)(draw(&state) * COLOURS);
    const double cx = 16.0 * (class % 2) + 5 + 5 * draw(&state), cy = 16.0 * (class >= 2) + 5 + 5 * draw(&state);
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < PLANE; k++) {
            const double dx = (double)(k % SIDE) - cx, dy = (double)(k / SIDE) - cy;
            bytes[c * PLANE + k] = (uint8_t)(255 * colours[class][c] * exp(-(dx * dx + dy * dy) / (2 * wide * wide)));
        }
    return class;
}

/* Fresh pictures. */
static void feed_coloured(an_test *t, const model_graphs *graphs, int64_t step)
{
    enum { MOST = 64 };
    static uint8_t bytes[MOST * 3 * PLANE];
    int32_t classes[MOST];
    const int64_t batch = an_tensor_dim(graphs->inputs[0], 0);
    CHECK(t, batch <= MOST);
    for (int64_t i = 0; i < batch; i++) classes[i] = coloured((uint64_t)(NCOLOURED + step * batch + i), bytes + 3 * PLANE * i);
    CHECK_OK(t, an_tensor_write(graphs->inputs[0], bytes, (size_t)batch * 3 * PLANE));
    CHECK_OK(t, an_tensor_write(graphs->inputs[1], classes, (size_t)batch * sizeof *classes));
}

/* CIFAR-10 takes hours to be learnt: here are pictures of its size, in four of its ten classes, that take a minute. */
static void dit_makes_pictures_in_colour_of_the_class_asked_for(an_test *t)
{
    static const setting settings[] = {{"steps", 2400}, {"batch", 16}, {"guidance", 1}};
    trained r = train(t, "dit", settings, 3, feed_coloured);
    uint8_t *bytes = malloc(3 * PLANE);
    float *values = malloc((size_t)NCOLOURED * 3 * PLANE * sizeof *values);
    int32_t classes[NCOLOURED];
    CHECK(t, bytes && values);
    for (size_t i = 0; i < NCOLOURED; i++) {
        classes[i] = coloured(i, bytes);
        for (size_t k = 0; k < 3 * PLANE; k++) values[i * 3 * PLANE + k] = (float)bytes[k] / 127.5f - 1;
    }
    an_tensor *x = model_find("dit")->sample(&r.options, &r.graphs, NSHOWN);
    CHECK(t, x != NULL);
    float *made = read_all(t, x);
    const pictures real = {values, NCOLOURED, 3 * PLANE};
    size_t wrong = 0;
    for (size_t i = 0; i < NSHOWN; i++) wrong += (size_t)classes[nearest_of(made + i * real.npixels, &real)] != i / 4;
    printf("dit: of another class %zu\n", wrong);
    check_pictures(t, "dit", &r, 0.03, &(likeness){0.3, 0.1, 0.25}, &(pictures){made, NSHOWN, real.npixels}, &real);
    CHECK_EQ(t, wrong, 0);
    free(made);
    free(values);
    free(bytes);
    an_graph_destroy(r.g);
}

/* The derivative is part of the loss: without it training goes another way. (At the very first step both are one, since the network
 * begins as zero.) */
static void the_jvp_changes_meanflows_loss(an_test *t)
{
    double losses[2];
    for (int i = 0; i < 2; i++) {
        const setting settings[] = {{"steps", 60}, {"batch", 16}, {"dim", 32}, {"depth", 1}, {"same", 0.25}, {"without-jvp", i}};
        trained r = train(t, "meanflow", settings, 6, NULL);
        losses[i] = r.loss;
        an_graph_destroy(r.g);
    }
    printf("meanflow: loss with the JVP %.5f, without %.5f\n", losses[0], losses[1]);
    CHECK(t, isfinite(losses[0]) && isfinite(losses[1]) && fabs(losses[0] - losses[1]) > 1e-3);
}

AN_TEST_MAIN(AN_CASE(sampling_with_a_perfect_network_gives_the_data), AN_CASE(diffusion_makes_spots), AN_CASE(meanflow_makes_spots_in_one_step),
             AN_CASE(dit_makes_pictures_in_colour_of_the_class_asked_for), AN_CASE(the_jvp_changes_meanflows_loss))
