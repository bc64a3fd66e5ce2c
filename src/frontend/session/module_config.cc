#include "frontend/session/module_config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

#include "accel/module_options.h"
#include "base/file_io.h"

namespace tenon {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

// YAML as JSON: maps, lists, and scalars by their plain form. Aliases let a small text stand for an
// endless one, so values are counted.
class YamlConverter {
 public:
  explicit YamlConverter(std::string where) : where_(std::move(where)) {}

  Result<nlohmann::json> Convert(const YAML::Node& node, int depth = 0) {
    if (++values_ > kMaxValues || depth > kMaxDepth)
      return Fail(node, "more values or levels than a configuration has");
    switch (node.Type()) {
      case YAML::NodeType::Map:
        return ConvertMap(node, depth);
      case YAML::NodeType::Sequence:
        return ConvertList(node, depth);
      case YAML::NodeType::Scalar:
        return ConvertScalar(node.Scalar(), node.Tag());
      default:
        return nlohmann::json();
    }
  }

  Error Fail(const YAML::Node& node, std::string message) const {
    return InvalidArgument(std::move(message), PlaceOf(node));
  }
  std::string PlaceOf(const YAML::Node& node) const {
    return fmt::format("{}:{}", where_, node.Mark().line + 1);
  }

  // `tag`: "!" for what stands in quotes, which is text whatever it looks like.
  static nlohmann::json ConvertScalar(const std::string& text, const std::string& tag) {
    if (tag == "!")
      return text;
    if (text == "true" || text == "false")
      return text == "true";
    if (text.empty() || text == "~" || text == "null")
      return nullptr;
    const char* end = text.data() + text.size();
    int64_t whole = 0;
    if (const auto parsed = std::from_chars(text.data(), end, whole);
        parsed.ec == std::errc() && parsed.ptr == end)
      return whole;
    double number = 0.0;
    if (const auto parsed = std::from_chars(text.data(), end, number);
        parsed.ec == std::errc() && parsed.ptr == end)
      return number;
    return text;
  }

 private:
  static constexpr int kMaxValues = 10'000;
  static constexpr int kMaxDepth = 16;

  Result<nlohmann::json> ConvertMap(const YAML::Node& node, int depth) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar())
        return Fail(entry.first, "expected a name");
      const std::string& name = entry.first.Scalar();
      if (object.contains(name))
        return Fail(entry.first, fmt::format("'{}' stands here twice", name));
      TENON_ASSIGN_OR_RETURN(object[name], Convert(entry.second, depth + 1));
    }
    return object;
  }

  Result<nlohmann::json> ConvertList(const YAML::Node& node, int depth) {
    nlohmann::json list = nlohmann::json::array();
    for (const YAML::Node& entry : node) {
      TENON_ASSIGN_OR_RETURN(nlohmann::json value, Convert(entry, depth + 1));
      list.push_back(std::move(value));
    }
    return list;
  }

  std::string where_;
  int values_ = 0;
};

Status ReadKvCache(const YAML::Node& node, YamlConverter& converter, ModuleConfig& config) {
  if (!node.IsScalar() || node.Scalar().empty())
    return converter.Fail(node, "expected the type of the KV cache, such as f16 or 4bit_nf4");
  const std::string& type = node.Scalar();
  if (!config.kv_cache.empty() && config.kv_cache != type) {
    return converter.Fail(node, fmt::format("the KV cache is {} here and {} at {}", type,
                                            config.kv_cache, config.kv_cache_where));
  }
  config.kv_cache = type;
  config.kv_cache_where = converter.PlaceOf(node);
  return {};
}

// What can be quantized when a model is loaded: its KV cache.
Status ReadQuantization(const YAML::Node& node, YamlConverter& converter, ModuleConfig& config) {
  if (!node.IsMap())
    return converter.Fail(node, "expected values by name");
  for (const auto& entry : node) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
    const auto refuse = [&](std::string_view why) {
      return converter.Fail(entry.first, fmt::format("'quantization.{}' {}", name, why));
    };
    if (name == "kv_cache") {
      TENON_RETURN_IF_ERROR(ReadKvCache(entry.second, converter, config));
    } else if (name == "recomputation") {
      TENON_ASSIGN_OR_RETURN(const nlohmann::json value, converter.Convert(entry.second));
      if (!value.is_boolean())
        return refuse("must be true or false");
      config.recomputation = value.get<bool>();
    } else if (name == "weights") {
      return refuse(
          "is not supported: weights keep their file's format, `tenon quantize` makes "
          "another");
    } else if (name == "group_size" || name == "long_group_size" || name == "long_from") {
      return refuse("is not supported: the groups of a KV cache type are fixed");
    } else {
      return refuse("is unknown; there are kv_cache and recomputation");
    }
  }
  return {};
}

Status ReadModules(const YAML::Node& node, YamlConverter& converter, ModuleConfig& config) {
  if (!node.IsMap())
    return converter.Fail(node, "'modules' must be a map of modules and their options");
  for (const auto& entry : node) {
    if (!entry.first.IsScalar())
      return converter.Fail(entry.first, "expected a module's name");
    ModuleConfig::Entry module{entry.first.Scalar(), nlohmann::json::object(),
                               converter.PlaceOf(entry.first)};
    if (module.name == "quantization") {
      TENON_RETURN_IF_ERROR(ReadQuantization(entry.second, converter, config));
      continue;
    }
    const auto is_same = [&](const auto& other) { return other.name == module.name; };
    if (std::ranges::any_of(config.modules, is_same))
      return converter.Fail(entry.first, fmt::format("'{}' stands here twice", module.name));
    TENON_ASSIGN_OR_RETURN(nlohmann::json options, converter.Convert(entry.second));
    if (options == false)  // a module that is switched off keeps its place in the file
      continue;
    if (options.is_object())
      module.options = std::move(options);
    else if (!options.is_null() && options != true)
      return converter.Fail(entry.second, "expected options by name, true or false");
    config.modules.push_back(std::move(module));
  }
  return {};
}

Status ReadObject(const YAML::Node& node, YamlConverter& converter, nlohmann::json& object) {
  if (!node.IsMap())
    return converter.Fail(node, "expected values by name");
  TENON_ASSIGN_OR_RETURN(object, converter.Convert(node));
  return {};
}

Status ReadField(const std::string& name, const YAML::Node& value, YamlConverter& converter,
                 ModuleConfig& config) {
  if (name == "modules")
    return ReadModules(value, converter, config);
  if (name == "module_memory_quota") {
    config.memory_quota_where = converter.PlaceOf(value);
    return ReadObject(value, converter, config.memory_quota);
  }
  if (name == "monitoring") {
    config.monitoring_where = converter.PlaceOf(value);
    return ReadObject(value, converter, config.monitoring);
  }
  if (name == "scheduling")
    return ReadObject(value, converter, config.scheduling);
  if (name == "kv_cache")
    return ReadKvCache(value, converter, config);
  if (name == "quantization")
    return ReadQuantization(value, converter, config);
  return converter.Fail(
      value, fmt::format("unknown field '{}'; there are modules, module_memory_quota, monitoring, "
                         "scheduling, kv_cache and quantization",
                         name));
}

// The acceptance above which drafts become cheaper is a rule of the configuration and an option of
// the module that drafts.
Status PassAcceptanceOn(ModuleConfig& config) {
  constexpr const char* kName = "max_acceptance_rate";
  const auto found = config.monitoring.find(kName);
  if (found == config.monitoring.end())
    return {};
  const nlohmann::json alone = {{kName, *found}};
  double ignored = 0.0;
  OptionReader reader(OptionReader::TopLevel{"monitoring"}, alone);
  reader.Share(kName, ignored);
  if (const Status share = reader.Finish(); !share.ok())
    return Placed(share.error(), config.monitoring_where);
  for (ModuleConfig::Entry& module : config.modules) {
    if (module.name == "self_spec" && !module.options.contains(kName))
      module.options[kName] = *found;
  }
  config.monitoring.erase(found);
  return {};
}

Result<ModuleConfig> ReadRoot(const YAML::Node& root, const std::string& where) {
  ModuleConfig config;
  YamlConverter converter(where);
  if (root.IsNull())
    return config;
  if (!root.IsMap())
    return converter.Fail(root, "expected a map");
  for (const auto& entry : root) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
    TENON_RETURN_IF_ERROR(ReadField(name, entry.second, converter, config));
  }
  TENON_RETURN_IF_ERROR(PassAcceptanceOn(config));
  return config;
}

}  // namespace

Error Placed(Error error, const std::string& place) {
  if (!place.empty())
    error.where = error.where.empty() ? place : fmt::format("{}: {}", place, error.where);
  return error;
}

Result<ModuleConfig> ParseModuleConfig(std::string_view yaml, const std::string& where) {
  if (yaml.size() > kMaxConfigBytes) {
    return InvalidArgument(
        fmt::format("{} bytes, a configuration has at most {}", yaml.size(), kMaxConfigBytes),
        where);
  }
  try {
    return ReadRoot(YAML::Load(std::string(yaml)), where);
  } catch (const YAML::Exception& error) {
    return InvalidArgument(error.msg, fmt::format("{}:{}", where, error.mark.line + 1));
  }
}

Result<ModuleConfig> ReadModuleConfig(const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxConfigBytes));
  return ParseModuleConfig(text, path.string());
}

Result<ModuleConfig::Entry> ParseModuleFlag(std::string_view flag) {
  const size_t colon = flag.find(':');
  ModuleConfig::Entry entry{std::string(flag.substr(0, colon)), nlohmann::json::object()};
  std::string_view rest = colon == std::string_view::npos ? "" : flag.substr(colon + 1);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view option = rest.substr(0, comma);
    const size_t equals = option.find('=');
    if (equals == 0 || equals == std::string_view::npos)
      return InvalidArgument(fmt::format("found '{}', expected option=value", option), "--module");
    const std::string name(option.substr(0, equals));
    if (entry.options.contains(name))
      return InvalidArgument(fmt::format("'{}' stands here twice", name), "--module");
    entry.options[name] = YamlConverter::ConvertScalar(std::string(option.substr(equals + 1)), "?");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (entry.name.empty())
    return InvalidArgument("expected a module's name", "--module");
  return entry;
}

}  // namespace tenon
