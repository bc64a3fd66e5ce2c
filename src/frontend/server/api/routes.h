// All endpoints of the API, as a router.
#pragma once

#include "frontend/server/api/api_context.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

// `context` must outlive the server that uses the router.
void AddApiRoutes(ApiContext& context, Router& router);

}  // namespace tenon
