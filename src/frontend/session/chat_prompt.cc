#include "frontend/session/chat_prompt.h"

namespace tenon {

Result<std::vector<int32_t>> EncodeChat(const Model& model, const nlohmann::ordered_json& messages,
                                        const nlohmann::ordered_json& variables) {
  TENON_ASSIGN_OR_RETURN(const std::string text, model.RenderChat(messages, variables));
  return model.tokenizer().Encode(text, SpecialText::kParse, AddSpecial::kNone);
}

}  // namespace tenon
