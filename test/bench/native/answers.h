/* The backend's fixed answers, in the shapes of vLLM 0.32, so that a proxy takes it for one. */
#ifndef BENCH_ANSWERS_H
#define BENCH_ANSWERS_H

/* An event of a stream begins so; the stream's number stands in the id. */
#define EVENT_HEAD "data: {\"id\":\"chatcmpl-%016x\",\"object\":\"chat.completion.chunk\",\"created\":1795970621,\"model\":\"bench\",\"choices\":"
#define ROLE_EVENT EVENT_HEAD "[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null,\"prompt_text\":null}\n\n"
#define TOKEN_EVENT EVENT_HEAD "[{\"index\":0,\"delta\":{\"content\":\" ~%05u.%07u@%020llu\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n"
#define FINISH_EVENT EVENT_HEAD "[{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null,\"token_ids\":null}]}\n\n"
#define USAGE_EVENT EVENT_HEAD "[],\"usage\":{\"prompt_tokens\":32,\"total_tokens\":%u,\"completion_tokens\":%u}}\n\n"

static const char stream_head[] =
    "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

static const char completion[] =
    "{\"id\":\"chatcmpl-0000000000000000\",\"object\":\"chat.completion\",\"created\":1795970621,\"model\":\"bench\",\"choices\":[{\"index\":0,"
    "\"message\":{\"role\":\"assistant\",\"content\":\"A short answer.\",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,"
    "\"tool_calls\":[],\"reasoning\":null},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null,\"token_ids\":null}],\"service_tier\":null,"
    "\"system_fingerprint\":null,\"usage\":{\"prompt_tokens\":32,\"total_tokens\":37,\"completion_tokens\":5,\"prompt_tokens_details\":null},"
    "\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"kv_transfer_params\":null}";

static const char models[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":1795970621,\"owned_by\":\"vllm\",\"root\":\"bench\","
    "\"parent\":null,\"max_model_len\":1048576,\"permission\":[]}]}";

static const char metrics[] =
    "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"bench\"} 0.0\n"
    "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"bench\"} 0.0\n"
    "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"bench\"} 0.0\n"
    "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"65536\"} 1.0\n";

#endif
