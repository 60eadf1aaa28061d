/* abi.h - the part of the WebGPU C interface (webgpu.h) that is used, declared here.
 *
 * Nothing is linked: library.c opens a library at run time and fills wg_api. Dawn and wgpu-native agree on what stands here;
 * where they differ, and versions of them do, the table in library.c says how. Names are those of webgpu.h with wg_ for WGPU. */
#ifndef AN_WEBGPU_ABI_H
#define AN_WEBGPU_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct wg_instance_impl *wg_instance;
typedef struct wg_adapter_impl *wg_adapter;
typedef struct wg_device_impl *wg_device;
typedef struct wg_queue_impl *wg_queue;
typedef struct wg_buffer_impl *wg_buffer;
typedef struct wg_module_impl *wg_module;
typedef struct wg_pipeline_impl *wg_pipeline;
typedef struct wg_layout_impl *wg_layout; /* of a bind group */
typedef struct wg_group_impl *wg_group;
typedef struct wg_encoder_impl *wg_encoder;
typedef struct wg_pass_impl *wg_pass;
typedef struct wg_commands_impl *wg_commands;
typedef struct wg_queries_impl *wg_queries;

typedef struct wg_string { /* not terminated; NULL with length SIZE_MAX, or 0: none */
    const char *data;
    size_t length;
} wg_string;

typedef struct wg_chain {
    struct wg_chain *next;
    uint32_t type;
} wg_chain;

typedef struct wg_future {
    uint64_t id;
} wg_future;

enum {
    WG_TYPE_WGSL = 2,
    WG_TYPE_NATIVE_INSTANCE = 0x00030004, /* wgpu-native */
    WG_TYPE_DAWN_CACHE = 0x00050007,      /* Dawn */
    WG_TYPE_DAWN_TOGGLES = 0x0005000A
};
enum { WG_CALL_IN_PROCESS_EVENTS = 2 };
enum { WG_SUCCESS = 1 }; /* of every status */
enum { WG_POWER_ANY = 0, WG_POWER_LOW = 1, WG_POWER_HIGH = 2 };
enum { WG_LEVEL_CORE = 2 };
enum { WG_BACKEND_ANY, WG_BACKEND_NULL, WG_BACKEND_WEBGPU, WG_BACKEND_D3D11, WG_BACKEND_D3D12, WG_BACKEND_METAL, WG_BACKEND_VULKAN };
enum { WG_ADAPTER_DISCRETE = 1, WG_ADAPTER_INTEGRATED, WG_ADAPTER_CPU, WG_ADAPTER_UNKNOWN };
enum { WG_ERROR_NONE = 1, WG_ERROR_VALIDATION, WG_ERROR_MEMORY, WG_ERROR_INTERNAL, WG_ERROR_UNKNOWN };
enum { WG_SCOPE_VALIDATION = 1, WG_SCOPE_MEMORY, WG_SCOPE_INTERNAL };
enum { WG_LOST_DESTROYED = 2 };
enum { WG_USE_MAP_READ = 1, WG_USE_COPY_SRC = 4, WG_USE_COPY_DST = 8, WG_USE_UNIFORM = 0x40, WG_USE_STORAGE = 0x80, WG_USE_RESOLVE = 0x200 };
enum { WG_MAP_READ = 1 };
enum { WG_QUERY_TIMESTAMP = 2 };

/* Everything that comes later is told to a callback. */
#define WG_CALLBACK_INFO(name, type)                                                                                   \
    typedef struct name {                                                                                              \
        wg_chain *next;                                                                                                \
        uint32_t mode;                                                                                                 \
        type call;                                                                                                     \
        void *user1, *user2;                                                                                           \
    } name
typedef void (*wg_on_adapter)(uint32_t status, wg_adapter adapter, wg_string message, void *user1, void *user2);
typedef void (*wg_on_device)(uint32_t status, wg_device device, wg_string message, void *user1, void *user2);
typedef void (*wg_on_pipeline)(uint32_t status, wg_pipeline pipeline, wg_string message, void *user1, void *user2);
typedef void (*wg_on_done)(uint32_t status, wg_string message, void *user1, void *user2); /* mapping, submitted work */
typedef void (*wg_on_scope)(uint32_t status, uint32_t error, wg_string message, void *user1, void *user2);
typedef void (*wg_on_lost)(const wg_device *device, uint32_t reason, wg_string message, void *user1, void *user2);
typedef void (*wg_on_error)(const wg_device *device, uint32_t error, wg_string message, void *user1, void *user2);
WG_CALLBACK_INFO(wg_adapter_info_call, wg_on_adapter);
WG_CALLBACK_INFO(wg_device_call, wg_on_device);
WG_CALLBACK_INFO(wg_pipeline_call, wg_on_pipeline);
WG_CALLBACK_INFO(wg_done_call, wg_on_done);
WG_CALLBACK_INFO(wg_scope_call, wg_on_scope);
WG_CALLBACK_INFO(wg_lost_call, wg_on_lost);

/* All zero is what every library takes as its default, though they disagree on what comes after next. */
typedef struct wg_instance_desc {
    wg_chain *next;
    uint64_t rest[4];
} wg_instance_desc;

typedef struct wg_native_instance { /* wgpu-native's WGPUInstanceExtras; later versions append to it */
    wg_chain chain;
    uint64_t backends, flags;
    uint64_t rest[24];
} wg_native_instance;
enum { WG_NATIVE_VULKAN = 1, WG_NATIVE_METAL = 4, WG_NATIVE_DX12 = 8 };
enum { WG_NATIVE_ALLOW_NONCOMPLIANT = 8 };

typedef struct wg_dawn_toggles {
    wg_chain chain;
    size_t nenabled;
    const char *const *enabled;
    size_t ndisabled;
    const char *const *disabled;
} wg_dawn_toggles;

typedef struct wg_dawn_cache { /* load gives the size, and fills value if that has room for it */
    wg_chain chain;
    wg_string isolation;
    size_t (*load)(const void *key, size_t key_nbytes, void *value, size_t value_nbytes, void *user);
    void (*store)(const void *key, size_t key_nbytes, const void *value, size_t value_nbytes, void *user);
    void *user;
} wg_dawn_cache;

typedef struct wg_dawn_cache_2026 { /* the same, as callbacks of their own */
    wg_chain chain;
    wg_string isolation;
    struct {
        wg_chain *next;
        size_t (*call)(size_t key_nbytes, const uint8_t *key, size_t value_nbytes, uint8_t *value, void *user1, void *user2);
        void *user1, *user2;
    } load;
    struct {
        wg_chain *next;
        void (*call)(size_t key_nbytes, const uint8_t *key, size_t value_nbytes, const uint8_t *value, void *user1, void *user2);
        void *user1, *user2;
    } store;
} wg_dawn_cache_2026;

typedef struct wg_adapter_options {
    wg_chain *next;
    uint32_t level, power, force_fallback, backend;
    void *surface;
} wg_adapter_options;

typedef struct wg_adapter_info {
    wg_chain *next;
    wg_string vendor, architecture, device, description;
    uint32_t backend, type, vendor_id, device_id, subgroup_min, subgroup_max;
} wg_adapter_info;

typedef struct wg_features {
    size_t n;
    const uint32_t *list;
} wg_features;

typedef struct wg_limits {
    wg_chain *next;
    uint32_t texture_1d, texture_2d, texture_3d, texture_layers;
    uint32_t bind_groups, bind_groups_and_vertex_buffers, bindings_per_group;
    uint32_t dynamic_uniform_buffers, dynamic_storage_buffers, sampled_textures, samplers;
    uint32_t storage_buffers, storage_textures, uniform_buffers;
    uint64_t uniform_binding_nbytes, storage_binding_nbytes;
    uint32_t uniform_alignment, storage_alignment;
    uint32_t vertex_buffers;
    uint64_t buffer_nbytes;
    uint32_t vertex_attributes, vertex_stride, inter_stage_variables, color_attachments, color_attachment_nbytes;
    uint32_t workgroup_nbytes, workgroup_invocations, workgroup_size[3], workgroups;
    uint32_t immediate_nbytes;
    uint32_t rest[8]; /* Dawn has four more */
} wg_limits;

typedef struct wg_queue_desc {
    wg_chain *next;
    wg_string label;
} wg_queue_desc;

typedef struct wg_error_call {
    wg_chain *next;
    wg_on_error call;
    void *user1, *user2;
} wg_error_call;

typedef struct wg_device_desc {
    wg_chain *next;
    wg_string label;
    size_t nfeatures;
    const uint32_t *features;
    const wg_limits *limits;
    wg_queue_desc queue;
    wg_lost_call lost;
    wg_error_call error;
} wg_device_desc;

typedef struct wg_buffer_desc {
    wg_chain *next;
    wg_string label;
    uint64_t usage, nbytes;
    uint32_t is_mapped;
} wg_buffer_desc;

typedef struct wg_wgsl_source {
    wg_chain chain;
    wg_string code;
} wg_wgsl_source;

typedef struct wg_module_desc {
    wg_chain *next;
    wg_string label;
} wg_module_desc;

typedef struct wg_pipeline_desc {
    wg_chain *next;
    wg_string label;
    void *layout; /* NULL: from the shader */
    struct {
        wg_chain *next;
        wg_module module;
        wg_string entry;
        size_t nconstants;
        const void *constants;
    } compute;
} wg_pipeline_desc;

typedef struct wg_group_entry {
    wg_chain *next;
    uint32_t binding;
    wg_buffer buffer;
    uint64_t offset, nbytes;
    void *sampler, *texture;
} wg_group_entry;

typedef struct wg_group_desc {
    wg_chain *next;
    wg_string label;
    wg_layout layout;
    size_t nentries;
    const wg_group_entry *entries;
} wg_group_desc;

typedef struct wg_timestamps {
    wg_chain *next;
    wg_queries queries;
    uint32_t begin, end;
} wg_timestamps;

typedef struct wg_pass_desc {
    wg_chain *next;
    wg_string label;
    const wg_timestamps *timestamps;
} wg_pass_desc;

typedef struct wg_queries_desc {
    wg_chain *next;
    wg_string label;
    uint32_t type, n;
} wg_queries_desc;

typedef struct wg_encoder_desc {
    wg_chain *next;
    wg_string label;
} wg_encoder_desc;

/* Every function by the name it has after "wgpu". */
typedef struct wg_api {
#define WG(ret, name, ...) ret(*name)(__VA_ARGS__);
#define WG_OPTIONAL WG
#include "backend/webgpu/abi.def"
} wg_api;

#endif
