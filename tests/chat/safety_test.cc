// Templates that would run for ever, fill the memory, overflow the stack or reach outside. Each
// must end as an error of the request; that they end soon is the budget's doing, counted in steps
// and bytes, not in time.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "chat/chat_data.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSteps[] = "the template needs more evaluation steps than its budget allows";
constexpr char kBytes[] = "the template produces more text than its budget allows";
constexpr char kDepth[] = "maximum recursion depth exceeded";

std::string ErrorOf(const std::string& source, const Json& variables = Json::object()) {
  const auto result = RenderChat(source, variables);
  if (result)
    return "rendered " + std::to_string(result->size()) + " bytes";
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  return result.error().message;
}

std::string Times(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += text;
  return out;
}

TEST(ChatSafety, NestedLoopsRunOutOfSteps) {
  const std::string source =
      "{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}x{% endfor %}"
      "{% endfor %}{% endfor %}";
  EXPECT_EQ(ErrorOf(source), kSteps);
}

TEST(ChatSafety, EveryLoopOfABuiltinCounts) {
  const char* const bodies[] = {
      "{% set x = range(100000) | list %}",
      "{% set x = range(100000) | sum %}",
      "{% set x = 1 in range(100000) | reverse | list %}",
      "{% set x = range(100000) | map('string') | join %}",
      "{% set x = range(100000) | sort %}",
      "{% set x = range(100000) | list == range(100000) | list %}",
      "{% set x = ('a' * 100000) | list %}",
      "{% set x = ('a' * 1000000).split('a') %}",
      "{% set x = ('é' * 100000)[::-1] %}",
      "{% set x = ('x' * 1000000) | title %}",
      "{% set x = 'y' in 'x' * 10000000 %}",
      "{% set x = dict.fromkeys(range(100000)) %}",
      "{% set x = range(100000) | unique | list %}",
      "{% set x = (range(100000) | list) | tojson %}",
  };
  for (const char* body : bodies) {
    const std::string error =
        ErrorOf(std::string("{% for i in range(99999) %}") + body + "{% endfor %}");
    EXPECT_TRUE(error == kSteps || error == kBytes) << body << ": " << error;
  }
}

// One pass over a long text is cheap, so it must not be free.
TEST(ChatSafety, EveryPassOverALongTextCounts) {
  const char* const operations[] = {
      "b | int",
      "b | float",
      "b | truncate(9999999)",
      "b.isidentifier()",
      "b.find('x', 9999999)",
      "b.startswith(b)",
      "b.removeprefix(b)",
      "('%' ~ '-' * 1000000 ~ 's') % 1",
      "b | length",
      "b == c",
      "b in c",
      "b.islower()",
      "b.strip('y')  ~ b.split('y')[0][0]",
      "{b: 1}[c]",
      "b.rfind('y')",
      "{}[deep]",
  };
  for (const char* operation : operations) {
    const std::string error = ErrorOf(
        "{% set b = 'x' * 10000000 %}{% set c = 'x' * 10000000 %}{% set ns = namespace(t=(1,)) %}"
        "{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{% set deep = ns.t %}"
        "{% for i in range(99999) %}{% for j in range(99999) %}{% set q = " +
        std::string(operation) + " %}{% endfor %}{% endfor %}");
    EXPECT_TRUE(error == kSteps || error == kBytes) << operation << ": " << error;
  }
}

TEST(ChatSafety, ManyUnusedNamesInALoopCount) {
  std::string names;
  for (int i = 0; i < 20000; ++i)
    names += "{% set v" + std::to_string(i) + " = 1 %}";
  EXPECT_EQ(ErrorOf("{% for a in range(99999) %}{% if b %}" + names + "{% endif %}{% endfor %}"),
            kSteps);
}

TEST(ChatSafety, LargeTextsRunOutOfBytes) {
  const char* const sources[] = {
      "{{ 'a' * 1000000000 }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ 'ab' * 9223372036854775807 }}",
      "{{ [0] * 9223372036854775807 }}",
      "{{ (1, 2) * 4611686018427387905 }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%*d' % (2000000000, 1) }}",
      "{{ '{:1000000000}'.format('a') }}",
      "{{ 'a'.center(9223372036854775807) }}",
      "{{ 'a'.ljust(1000000000, 'é') }}",
      "{{ 'a'.zfill(1000000000) }}",
      "{{ '\t'.expandtabs(1000000000) }}",
      "{{ 'a' | center(1000000000) }}",
      "{{ 'a\nb' | indent(1000000000) }}",
      "{{ ('a' * 60000).replace('a', 'b' * 60000) }}",
      "{{ ('a' * 60000).replace('', 'b' * 60000) }}",
      "{{ ('b' * 60000).join('a' * 60000) }}",
      "{{ ('a' * 60000) | join('b' * 60000) }}",
      "{{ [1] | tojson(indent=1000000000) }}",
      "{{ [1] | batch(1000000000, 'x') | list }}",
      "{% set ns = namespace(t='ab') %}{% for i in range(99) %}{% set ns.t = ns.t ~ ns.t %}"
      "{% endfor %}",
      "{% set ns = namespace(t=[1]) %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}"
      "{% endfor %}",
  };
  for (const char* source : sources) {
    const std::string error = ErrorOf(source);
    EXPECT_TRUE(error == kBytes || error == kSteps) << source << ": " << error;
  }
}

TEST(ChatSafety, OutputOfPermittedSizeIsFine) {
  ChatBudget budget;
  budget.output_bytes = 5000;
  EXPECT_TRUE(RenderChat("{{ 'a' * 1000 }}", Json::object(), budget).ok());
  EXPECT_FALSE(RenderChat("{{ 'a' * 5001 }}", Json::object(), budget).ok());
}

TEST(ChatSafety, ADotOfEveryBudgetIsAnErrorNotAnAbort) {
  const Json cases = ReadChatJson("cases.json").at("tool_call_answered");
  const std::string source = ReadChatFile(ChatDataPath("templates/hermes_tools.jinja"));
  const auto parsed = ChatTemplate::Parse(source);
  ASSERT_TRUE(parsed.ok());
  ASSERT_TRUE(parsed->Render(cases).ok());
  std::vector<bool> ended;
  for (int64_t steps = 0; steps < 4000; steps += 37) {
    ChatBudget budget;
    budget.steps = steps;
    ended.push_back(parsed->Render(cases, budget).ok());
  }
  EXPECT_TRUE(!ended.front() && ended.back());
  EXPECT_TRUE(std::ranges::is_sorted(ended));
  ended.clear();
  for (int64_t bytes = -1; bytes < 20000; bytes += 331) {
    ChatBudget budget;
    budget.output_bytes = bytes;
    const auto result = parsed->Render(cases, budget);
    EXPECT_TRUE(result.ok() || result.error().message == kBytes);
    ended.push_back(result.ok());
  }
  EXPECT_TRUE(!ended.front() && ended.back());
  EXPECT_TRUE(std::ranges::is_sorted(ended));
}

TEST(ChatSafety, RecursionIsBounded) {
  EXPECT_EQ(ErrorOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), kDepth);
  EXPECT_EQ(ErrorOf("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}"
                    "{{ a() }}"),
            kDepth);
  EXPECT_EQ(ErrorOf("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}"
                    "{{ m() }}"),
            kDepth);
  EXPECT_EQ(ErrorOf("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), kDepth);
}

TEST(ChatSafety, DeepValuesAreBounded) {
  const std::string nest =
      "{% set ns = namespace(a=[]) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% endfor %}";
  EXPECT_EQ(ErrorOf(nest), "rendered 0 bytes");
  EXPECT_EQ(ErrorOf(nest + "{{ ns.a }}"), kDepth);
  EXPECT_EQ(ErrorOf(nest + "{{ ns.a | tojson }}"), kDepth);
  EXPECT_EQ(ErrorOf(nest + "{% set first = ns.a %}" + nest + "{{ first == ns.a }}"), kDepth);
  const std::string tuples =
      "{% set ns = namespace(a=()) %}{% for i in range(5000) %}{% set ns.a = (ns.a,) %}{% endfor "
      "%}";
  EXPECT_EQ(ErrorOf(tuples + "{{ {ns.a: 1} }}"), kDepth);
  const std::string lazy =
      "{% set ns = namespace(a=[1]) %}{% for i in range(5000) %}"
      "{% set ns.a = ns.a | select %}{% endfor %}";
  EXPECT_EQ(ErrorOf(lazy + "{{ ns.a | list }}"), kDepth);
}

TEST(ChatSafety, DeepJsonIsBounded) {
  const std::string text = "{\"v\": " + Times(20000, "[") + Times(20000, "]") + "}";
  EXPECT_EQ(ErrorOf("{{ v }}", Json::parse(text)), kDepth);
  EXPECT_EQ(ErrorOf("unused", Json::parse(text)), "rendered 6 bytes");
}

TEST(ChatSafety, DeepSourcesAreRefused) {
  constexpr int kDeep = 60000;
  const std::string sources[] = {
      "{{ " + Times(kDeep, "(") + "1" + Times(kDeep, ")") + " }}",
      "{{ " + Times(kDeep, "[") + Times(kDeep, "]") + " }}",
      "{{ " + Times(kDeep, "{1:") + "1" + Times(kDeep, "}") + " }}",
      "{{ " + Times(kDeep, "not ") + "1 }}",
      "{{ " + Times(kDeep, "- ") + "1 }}",
      "{{ 1" + Times(kDeep, " + 1") + " }}",
      "{{ 1" + Times(kDeep, " ** 1") + " }}",
      "{{ 1" + Times(kDeep, " or 1") + " }}",
      "{{ 1" + Times(kDeep, " if 1 else 1") + " }}",
      "{{ a" + Times(kDeep, ".b") + " }}",
      "{{ a" + Times(kDeep, "[0]") + " }}",
      "{{ a" + Times(kDeep, "()") + " }}",
      "{{ a" + Times(kDeep, "|e") + " }}",
      "{{ a" + Times(kDeep, " is true") + " }}",
      "{{ a is " + Times(kDeep, "not ") + "true }}",
      Times(kDeep, "{% if 1 %}") + Times(kDeep, "{% endif %}"),
      Times(kDeep, "{% for x in y %}"),
      Times(kDeep, "{% macro m() %}"),
      "{% set " + Times(kDeep, "(") + " = 1 %}",
  };
  for (const std::string& source : sources)
    EXPECT_FALSE(ChatTemplate::Parse(source).ok()) << source.substr(0, 30);
}

TEST(ChatSafety, LongSourcesAreFine) {
  EXPECT_EQ(RenderChat("{{ 'x'" + Times(20000, " ~ 'x'") + " }}", Json::object())->size(), 20001U);
  EXPECT_TRUE(
      RenderChat("{% if 0 %}" + Times(500, "{% elif 0 %}a") + "{% endif %}", Json::object()).ok());
  EXPECT_TRUE(RenderChat("{{ [" + Times(20000, "1,") + "] | length }}", Json::object()).ok());
}

TEST(ChatSafety, ManyNamesInManyBranchesEnd) {
  std::string source;
  for (int i = 0; i < 12000; ++i)
    source += "{% if a %}{% set v" + std::to_string(i) + " = 1 %}{% endif %}";
  const auto parsed = ChatTemplate::Parse(source);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message, "the template has too many names and branches");
}

TEST(ChatSafety, HugeAndInvalidSourcesAreRefused) {
  EXPECT_FALSE(ChatTemplate::Parse(std::string((1 << 20) + 1, 'a')).ok());
  EXPECT_FALSE(ChatTemplate::Parse("caf\xE9").ok());
  EXPECT_FALSE(ChatTemplate::Parse("\xED\xA0\x80").ok());
  EXPECT_FALSE(ChatTemplate::Parse("{{ '\\ud83d' }}").ok());
}

TEST(ChatSafety, InternalsCannotBeReached) {
  const char* const sources[] = {
      "{{ ''.__class__.__mro__ }}",
      "{{ ''['__class__']['__base__'] }}",
      "{{ (''|attr('__class__')).x }}",
      "{{ [].__class__() }}",
      "{{ range.__globals__.x }}",
      "{{ raise_exception.__globals__['os'].system('id') }}",
      "{{ '{0.__class__.__mro__}'.format(1) }}",
      "{{ '{0[__class__].x}'.format('') }}",
      "{{ [''] | map(attribute='__class__.__mro__') | list }}",
      "{{ namespace().__class__() }}",
      "{{ self.__init__.__globals__ }}",
      "{{ cycler.__init__.__globals__ }}",
      "{{ d.pop('a') }}",
      "{{ d.update({'b': 1}) }}",
      "{{ d.clear() }}",
      "{{ l.append(1) }}",
      "{{ l['append'](1) }}",
      "{{ l.sort() }}",
      "{{ (l|attr('pop'))() }}",
  };
  const auto variables = Json::parse(R"({"d": {"a": 1}, "l": [1]})");
  for (const char* source : sources)
    EXPECT_FALSE(RenderChat(source, variables).ok()) << source;
  EXPECT_EQ(ErrorOf("{{ ''.__class__.x }}"),
            "access to attribute '__class__' of 'str' object is unsafe.");
}

// Text in a message is data: nothing in it is read as template code.
TEST(ChatSafety, MessagesAreNotTemplates) {
  const auto variables = Json::parse(R"({"c": "{{ 1 + 1 }}{% raw %}{# x #}%s{0}"})");
  EXPECT_EQ(*RenderChat("{{ c }}{{ c | trim }}{% set x %}{{ c }}{% endset %}{{ x }}", variables),
            "{{ 1 + 1 }}{% raw %}{# x #}%s{0}{{ 1 + 1 }}{% raw %}{# x #}%s{0}"
            "{{ 1 + 1 }}{% raw %}{# x #}%s{0}");
}

TEST(ChatSafety, InvalidTextInVariablesIsPassedThrough) {
  Json variables;
  variables["c"] = "a\xFF\xC3(\xE2\x82";
  EXPECT_EQ(*RenderChat("{{ c }}|{{ c | length }}|{{ c[0] }}", variables),
            "a\xFF\xC3(\xE2\x82|6|a");
  EXPECT_TRUE(RenderChat("{{ c | upper }}{{ c[::-1] }}{{ [c] }}{{ c | tojson(true) }}"
                         "{{ c.split() }}{{ c | title | list }}{{ c.casefold() }}",
                         variables)
                  .ok());
}

}  // namespace
}  // namespace tenon
