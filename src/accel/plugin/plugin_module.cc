#include "accel/plugin/plugin_module.h"

#include "accel/plugin/plugin_source.h"
#include "accel/speculation/speculation_module.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreatePluginModule(const ModuleContext& context) {
  std::string library;
  nlohmann::json own = nlohmann::json::object();
  SpeculationOptions speculation;
  OptionReader reader(context.name, context.options);
  reader.Text("library", library);
  reader.Object("options", own);
  ReadSpeculationOptions(reader, speculation);
  TENON_RETURN_IF_ERROR(reader.Finish());
  if (library.empty())
    return InvalidArgument("expected the shared library's file",
                           "modules." + context.name + ".library");
  TENON_ASSIGN_OR_RETURN(auto source, PluginSource::Load(library, own.dump()));
  return std::unique_ptr<Module>(
      std::make_unique<SpeculationModule>(context.name, std::move(source), speculation));
}

}  // namespace tenon
