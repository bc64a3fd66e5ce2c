#include "frontend/cli/command.h"

namespace tenon {
namespace {

constexpr Command kCommands[] = {
    {"run", "Generate once from a prompt", DefineRun},
    {"chat", "Talk with a model in the terminal", DefineChat},
    {"serve", "Serve a model over HTTP and WebSocket", DefineServe},
    {"gateway", "Balance requests over many servers", DefineGateway},
    {"pull", "Fetch a model into the local store", DefinePull},
    {"list", "Models in the local store", DefineList},
    {"rm", "Remove a model from the local store", DefineRemove},
    {"inspect", "Show a model's file, graph, optimised graph or plan", DefineInspect},
    {"convert", "Write a model in another format", DefineConvert},
    {"tokenize", "Text to token ids", DefineTokenize},
    {"perplexity", "Measure a model's quality on a text", DefinePerplexity},
    {"quantize", "Make a smaller model with weights of fewer bits", DefineQuantize},
    {"bench", "Measure a model's speed", DefineBench},
    {"bench-modules", "Measure acceleration modules, also spelled `bench modules`",
     DefineBenchModules},
    {"plan", "Predict the memory that a model will need", DefinePlan},
    {"modules", "Show and switch the acceleration modules of a server", DefineModules},
    {"train-router", "Fit the router between a small and a large model", DefineTrainRouter},
    {"doctor", "Show what this machine offers and which kernels would run", DefineDoctor},
};

}  // namespace

std::span<const Command> Commands() {
  return kCommands;
}

}  // namespace tenon
