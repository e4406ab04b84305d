// Measures llama.cpp's libmtmd: the first token after an image and a text, from an empty cache. The time includes the
// resizing of the image, its encoding and the prompt. Flash attention has that release's default.
//
// usage: peer_images MODEL MMPROJ WIDTH HEIGHT TEXT_TOKENS REPETITIONS
// Prints a line of JSON with the best of its repetitions, in milliseconds. MODEL's vocabulary is synthesize.py's.
//
// Built against llama.cpp's `llama.h` and `mtmd.h`, with -std=c++17.

#include "llama.h"
#include "mtmd-helper.h"
#include "mtmd.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int BATCH = 2048;

double since(std::chrono::steady_clock::time_point begin) {
    return 1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "peer_images: %s\n", what);
    std::exit(1);
}

struct Times {
    double resize = 0, first_token = 1e30;
    int tokens = 0;
};

Times measure(llama_context *context, mtmd_context *eyes, llama_sampler *greedy, const std::vector<unsigned char> &pixels, int width,
              int height, const std::string &text) {
    llama_memory_clear(llama_get_memory(context), true);
    const auto begin = std::chrono::steady_clock::now();
    mtmd_bitmap *bitmap = mtmd_bitmap_init(width, height, pixels.data());
    mtmd_input_chunks *chunks = mtmd_input_chunks_init();
    mtmd_input_text input{};
    input.text = text.c_str(), input.text_len = text.size(), input.add_special = false, input.parse_special = true;
    const mtmd_bitmap *bitmaps[] = {bitmap};
    if (mtmd_tokenize(eyes, chunks, &input, bitmaps, 1) != 0) fail("mtmd_tokenize refuses");
    Times times;
    times.resize = since(begin);
    llama_pos past = 0;
    if (mtmd_helper_eval_chunks(eyes, context, chunks, 0, 0, BATCH, true, &past) != 0) fail("the prompt cannot be computed");
    llama_sampler_sample(greedy, context, -1);
    times.first_token = since(begin);
    times.tokens = static_cast<int>(mtmd_helper_get_n_tokens(chunks));
    mtmd_input_chunks_free(chunks);
    mtmd_bitmap_free(bitmap);
    return times;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 7) {
        std::fprintf(stderr, "usage: peer_images MODEL MMPROJ WIDTH HEIGHT TEXT_TOKENS REPETITIONS\n");
        return 64;
    }
    const int width = std::atoi(argv[3]), height = std::atoi(argv[4]), words = std::atoi(argv[5]), repetitions = std::atoi(argv[6]);
    if (width < 1 || height < 1 || words < 1 || repetitions < 1) fail("sizes, tokens and repetitions are numbers from 1 on");
    auto quiet = [](ggml_log_level level, const char *line, void *) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(line, stderr);
    };
    llama_log_set(quiet, nullptr);
    mtmd_log_set(quiet, nullptr);
    llama_backend_init();
    auto of_model = llama_model_default_params();
    of_model.n_gpu_layers = 999;
    llama_model *model = llama_model_load_from_file(argv[1], of_model);
    if (!model) fail("the model cannot be loaded");
    const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    auto of_eyes = mtmd_context_params_default();
    of_eyes.use_gpu = true, of_eyes.n_threads = threads;
    mtmd_context *eyes = mtmd_init_from_file(argv[2], model, of_eyes);
    if (!eyes) fail("the vision tower cannot be loaded");
    auto of_context = llama_context_default_params();
    of_context.n_ctx = 4096, of_context.n_batch = BATCH;
    of_context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    of_context.n_threads = of_context.n_threads_batch = threads;
    llama_context *context = llama_init_from_model(model, of_context);
    if (!context) fail("there is no room for the context");
    llama_sampler *greedy = llama_sampler_init_greedy();

    std::vector<unsigned char> pixels(static_cast<size_t>(width) * height * 3);
    for (size_t i = 0; i < pixels.size(); i++) pixels[i] = static_cast<unsigned char>(i * 2654435761u >> 24);
    std::string text = std::string("<|im_start|>") + mtmd_get_marker(eyes);
    for (int word = 0; word < words; word++) text += word % 2 ? "0" : "t";
    Times best;
    // One more, because the first run prepares memory and kernels.
    for (int repetition = 0; repetition <= repetitions; repetition++) {
        const Times times = measure(context, eyes, greedy, pixels, width, height, text);
        if (repetition > 0 && times.first_token < best.first_token) best = times;
    }
    std::printf("{\"width\": %d, \"height\": %d, \"tokens\": %d, \"resize_ms\": %.2f, \"first_token_ms\": %.2f}\n", width, height,
                best.tokens, best.resize, best.first_token);
    return 0;
}
