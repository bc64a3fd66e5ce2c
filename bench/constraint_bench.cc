// constraint_bench MODEL: processor time of token masks on the model's own vocabulary, over texts
// of several forms: cold (the first text of a constraint) and warm (the next one of the same). The
// model's weights are not read.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "engine/constrain/json_schema.h"
#include "frontend/serving/constraint_store.h"
#include "frontend/session/model.h"

namespace tenon {
namespace {

// Of this thread: what else the machine does is no part of a mask's cost.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Case {
  const char* name;
  std::string schema;
  std::string text;
};

std::vector<Case> Cases() {
  std::string story;
  while (story.size() < 3000)
    story += "The river carried the old boat past the silver bridge, and nobody spoke. ";
  std::string list = "[";
  for (int i = 0; i < 400; ++i)
    list += fmt::format("{}{}", i == 0 ? "" : ", ", i * 37 % 1000);
  list += "]";
  std::string wide = R"({"type":"object","properties":{)";
  std::string wide_text = "{";
  for (int i = 0; i < 60; ++i) {
    wide += fmt::format(R"({}"field_{}":{{"type":["string","null"],"maxLength":40}})",
                        i == 0 ? "" : ",", i);
    wide_text += fmt::format("{}\"field_{}\": \"value number {}\"", i == 0 ? "" : ", ", i, i);
  }
  return {
      {"person",
       R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
           "maximum":130},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":
           {"enum":["red","green","blue"]},"maxItems":5}},"required":["name","age"]})",
       R"({"name": "Ada Lovelace", "age": 36, "email": "ada@example.org", "tags": ["red", "blue"]})"},
      {"any JSON", "{}",
       R"({"title": "A list", "items": [{"id": 1, "ok": true, "note": null}, {"id": 2, "x": -1.5e3}]})"},
      {"long string", R"({"type":"string"})", "\"" + story + "\""},
      {"maxLength 5000", R"({"type":"string","maxLength":5000})", "\"" + story + "\""},
      {"pattern", R"({"type":"string","pattern":"^[a-zA-Z ,.]{0,5000}$"})", "\"" + story + "\""},
      {"maxItems 1000", R"({"type":"array","items":{"type":"integer"},"maxItems":1000})", list},
      {"60 members", wide + "}}", wide_text + "}"},
  };
}

struct Times {
  std::vector<double> masks;  // seconds, one for each token
  double advance = 0.0;       // seconds of all tokens
  bool is_allowed = true;
};

Times Follow(Constraint& constraint, std::span<const int32_t> tokens) {
  Times times;
  ConstraintCursor cursor(constraint);
  for (const int32_t token : tokens) {
    const double start = CpuSeconds();
    const auto mask = cursor.Mask();
    const double made = CpuSeconds();
    times.is_allowed &= IsAllowed(mask, token);
    cursor.Accept(token);
    times.masks.push_back(made - start);
    times.advance += CpuSeconds() - made;
  }
  return times;
}

void Print(const char* kind, Times times) {
  const size_t count = times.masks.size();
  double sum = 0.0;
  for (const double seconds : times.masks)
    sum += seconds;
  std::ranges::sort(times.masks);
  fmt::print(
      "  {:<5} mask avg {:7.1f} us  p50 {:6.1f}  p99 {:7.1f}  max {:7.1f}   advance {:5.1f} us a "
      "token   {} tokens{}\n",
      kind, 1e6 * sum / static_cast<double>(count), 1e6 * times.masks[count / 2],
      1e6 * times.masks[count * 99 / 100], 1e6 * times.masks.back(),
      1e6 * times.advance / static_cast<double>(count), count,
      times.is_allowed ? "" : "   NOT ALLOWED");
}

int Main(const char* path) {
  const auto model = Model::Open(path);
  if (!model.ok()) {
    fmt::print(stderr, "{}\n", model.error().ToString());
    return 1;
  }
  const Tokenizer& tokenizer = (*model)->tokenizer();
  ConstraintStore store;
  for (const Case& test : Cases()) {
    const double start = CpuSeconds();
    const auto constraint =
        store.Get(tokenizer, tokenizer.vocab_size(), test.schema, [&](JsonGrammar& json) {
          return CompileJsonSchema(json, nlohmann::ordered_json::parse(test.schema));
        });
    const double seconds = CpuSeconds() - start;
    if (!constraint.ok()) {
      fmt::print(stderr, "{}: {}\n", test.name, constraint.error().ToString());
      return 1;
    }
    const auto tokens = tokenizer.Encode(test.text, SpecialText::kPlain, AddSpecial::kNone);
    fmt::print("{}: made in {:.2f} ms\n", test.name, 1e3 * seconds);
    Print("cold", Follow(**constraint, tokens));
    Print("warm", Follow(**constraint, tokens));
  }
  return 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: constraint_bench MODEL\n");
    return 2;
  }
  return tenon::Main(argv[1]);
}
