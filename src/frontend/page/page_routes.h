// The page's files as routes. They hold nothing secret and are public; what the page asks the API
// for needs the key as ever.
#pragma once

#include "frontend/server/http/http_server.h"

namespace tenon {

void AddPageRoutes(Router& router);

}  // namespace tenon
