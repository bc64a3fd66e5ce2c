// Name resolution: which variable each name of a template stands for.
//
// jinja2 compiles a template to Python functions and decides there, once, whether a name in a block
// is a variable of that block, of an outer one, or comes from outside; an assignment further down
// in an outer block can hide an outside variable from a loop above it. This pass follows the same
// rules (jinja2's idtracking), so that the same name means the same variable.
#pragma once

#include "model/chat/ast.h"

namespace tenon::chat {

// Fills in every Ref, Scope and slot count, and finds the filters and tests by name.
// Throws TemplateFailure, for an unknown filter among others.
void ResolveScopes(Template& tmpl);

}  // namespace tenon::chat
