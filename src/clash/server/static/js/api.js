// Requests to the control API. A refusal is an Error with its three parts.

export class Refusal extends Error {
  constructor(problem, status) {
    super(problem.what ?? "the request failed");
    this.what = problem.what ?? problem.title ?? `the server answered ${status}`;
    this.detail = problem.detail ?? "";
    this.hint = problem.hint ?? "";
    this.status = status;
  }
}

export async function call(method, path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({ what: "the run cannot be reached", detail: String(error.message ?? error), hint: "the page tries again by itself" }, 0);
  }
  const text = await answer.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    data = { what: "the answer is not JSON", detail: text.slice(0, 200) };
  }
  if (!answer.ok) throw new Refusal(data ?? {}, answer.status);
  return data;
}

export const query = (name) => `api/queries/${encodeURIComponent(name)}`;
