/* module.c - the tree of modules: named parameters and children, walked without a stack by first child, next sibling and
 * parent. */
#include <anneal/nn.h>

#include <string.h>

typedef struct entry {
    struct entry *next;
    const char *name;
    an_tensor *tensor;
    bool is_parameter;
} entry;

struct an_module {
    an_graph *graph;
    const char *kind, *name; /* name within the parent; NULL at the root */
    an_forward forward;
    void *data;
    bool is_training;
    an_dtype compute;
    entry *tensors;
    an_module *parent, *child, *sibling;
};

static const char *copy_text(an_graph *g, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = an_graph_alloc(g, n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

an_module *an_module_create(an_graph *g, const char *kind, an_forward forward, void *data)
{
    if (!g) return NULL;
    an_module *m = an_graph_alloc(g, sizeof *m);
    if (!m) return NULL;
    *m = (an_module){.graph = g, .kind = copy_text(g, kind), .forward = forward, .data = data, .is_training = true};
    return m->kind ? m : NULL;
}

static entry *find_tensor(const an_module *m, const char *name, size_t n)
{
    for (entry *e = m->tensors; e; e = e->next)
        if (strncmp(e->name, name, n) == 0 && e->name[n] == '\0') return e;
    return NULL;
}

static an_module *find_child(const an_module *m, const char *name, size_t n)
{
    for (an_module *c = m->child; c; c = c->sibling)
        if (strncmp(c->name, name, n) == 0 && c->name[n] == '\0') return c;
    return NULL;
}

/* A copy of name, if m can take it. */
static const char *new_name(an_module *m, const char *name)
{
    an_ctx *ctx = an_graph_ctx(m->graph);
    const size_t n = strlen(name);
    if (n == 0 || strchr(name, '.')) {
        an_fail(ctx, AN_ERR_ARG, "'%s' is no name for a part of module %s: it must not be empty or contain '.'", name,
                m->kind);
        return NULL;
    }
    if (find_tensor(m, name, n) || find_child(m, name, n)) {
        an_fail(ctx, AN_ERR_ARG, "module %s has a '%s' already: choose another name", m->kind, name);
        return NULL;
    }
    return copy_text(m->graph, name);
}

static an_tensor *add_tensor(an_module *m, const char *name, an_tensor *tensor, bool is_parameter)
{
    if (!m || !tensor) return NULL;
    if (an_tensor_graph(tensor) != m->graph) {
        an_fail(an_graph_ctx(m->graph), AN_ERR_ARG, "tensor '%s' and module %s belong to two graphs", name, m->kind);
        return NULL;
    }
    const char *own = new_name(m, name);
    entry *e = own ? an_graph_alloc(m->graph, sizeof *e) : NULL;
    if (!e) return NULL;
    *e = (entry){NULL, own, tensor, is_parameter};
    entry **last = &m->tensors;
    while (*last) last = &(*last)->next;
    *last = e;
    return tensor;
}

an_tensor *an_module_add_parameter(an_module *m, const char *name, an_tensor *tensor)
{
    return add_tensor(m, name, tensor, true);
}

an_tensor *an_module_add_buffer(an_module *m, const char *name, an_tensor *tensor)
{
    return add_tensor(m, name, tensor, false);
}

an_module *an_module_add_child(an_module *m, const char *name, an_module *child)
{
    if (!m || !child) return NULL;
    an_ctx *ctx = an_graph_ctx(m->graph);
    if (child->graph != m->graph) {
        an_fail(ctx, AN_ERR_ARG, "modules %s and '%s' belong to two graphs", m->kind, name);
        return NULL;
    }
    if (child->parent) {
        an_fail(ctx, AN_ERR_ARG, "module %s is a part of a module already: share its tensors, not the module",
                child->kind);
        return NULL;
    }
    for (const an_module *up = m; up; up = up->parent) {
        if (up != child) continue;
        an_fail(ctx, AN_ERR_ARG, "module %s cannot be a part of itself", child->kind);
        return NULL;
    }
    child->name = new_name(m, name);
    if (!child->name) return NULL;
    child->parent = m;
    an_module **last = &m->child;
    while (*last) last = &(*last)->sibling;
    *last = child;
    return child;
}

an_tensor *an_module_forward(an_module *m, an_tensor *x)
{
    return m && x ? m->forward(m, x) : NULL;
}

an_graph *an_module_graph(const an_module *m)
{
    return m ? m->graph : NULL;
}

const char *an_module_kind(const an_module *m)
{
    return m ? m->kind : "";
}

void *an_module_data(const an_module *m)
{
    return m ? m->data : NULL;
}

bool an_module_is_training(const an_module *m)
{
    return m && m->is_training;
}

/* The module that owns the last part of path, which is then what *path points at. */
static const an_module *descend(const an_module *m, const char **path)
{
    for (const char *dot; m && (dot = strchr(*path, '.')) != NULL; *path = dot + 1)
        m = find_child(m, *path, (size_t)(dot - *path));
    return m;
}

an_tensor *an_module_tensor(const an_module *m, const char *path)
{
    m = descend(m, &path);
    const entry *e = m ? find_tensor(m, path, strlen(path)) : NULL;
    return e ? e->tensor : NULL;
}

an_module *an_module_child(const an_module *m, const char *path)
{
    m = descend(m, &path);
    return m ? find_child(m, path, strlen(path)) : NULL;
}

an_module *an_module_next(const an_module *root, an_module *m)
{
    if (m->child) return m->child;
    while (m != root && !m->sibling) m = m->parent;
    return m == root ? NULL : m->sibling;
}

void an_module_train(an_module *m, bool on)
{
    for (an_module *at = m; at; at = an_module_next(m, at)) at->is_training = on;
}

void an_module_set_compute(an_module *m, an_dtype dtype)
{
    for (an_module *at = m; at; at = an_module_next(m, at)) at->compute = dtype;
}

an_dtype an_module_compute(const an_module *m)
{
    return m ? m->compute : AN_DTYPE_NONE;
}

bool an_module_forward_is(const an_module *m, an_forward forward)
{
    return m && m->forward == forward;
}

/* "fc1.weight" of e in m, below root. */
static const char *path_of(const an_module *root, const an_module *m, const entry *e)
{
    size_t n = strlen(e->name);
    for (const an_module *up = m; up != root; up = up->parent) n += strlen(up->name) + 1;
    char *path = an_graph_alloc(root->graph, n + 1);
    if (!path) return NULL;
    size_t part = strlen(e->name);
    memcpy(path + n - part, e->name, part);
    n -= part;
    for (const an_module *up = m; up != root; up = up->parent) {
        path[--n] = '.';
        part = strlen(up->name);
        memcpy(path + n - part, up->name, part);
        n -= part;
    }
    return path;
}

static bool listed(const an_parameter *items, size_t n, const an_tensor *tensor)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].tensor == tensor) return true;
    return false;
}

static an_params list(an_module *root, bool buffers)
{
    const an_params none = {0};
    if (!root) return none;
    size_t cap = 0, n = 0;
    for (an_module *m = root; m; m = an_module_next(root, m))
        for (const entry *e = m->tensors; e; e = e->next) cap++;
    an_parameter *items = an_graph_alloc(root->graph, (cap + 1) * sizeof *items);
    if (!items) return none;
    for (an_module *m = root; m; m = an_module_next(root, m)) {
        for (const entry *e = m->tensors; e; e = e->next) {
            if (!buffers && (!e->is_parameter || listed(items, n, e->tensor))) continue;
            const char *path = path_of(root, m, e);
            if (!path) return none;
            items[n++] = (an_parameter){path, e->tensor};
        }
    }
    return (an_params){root->graph, items, n};
}

an_params an_module_parameters(an_module *m)
{
    return list(m, false);
}

an_params an_module_state(an_module *m)
{
    return list(m, true);
}

int64_t an_module_nparams(an_module *m)
{
    const an_params all = an_module_parameters(m);
    int64_t n = 0;
    for (size_t i = 0; i < all.n; i++) n += an_tensor_numel(all.items[i].tensor);
    return n;
}
